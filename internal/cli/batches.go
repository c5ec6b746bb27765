package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sched-sidecar/sched/internal/operator"
)

const defaultBatchLimit = 20

func batchesCommand(environ []string) *cobra.Command {
	return listGroup("batches", "List batches, or show one",
		func() *cobra.Command { return batchesListCommand(environ) },
		batchesGetCommand(environ))
}

func batchesListCommand(environ []string) *cobra.Command {
	var o operateOptions
	var limit int
	var after string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List batches with their progress",
		Long: `Lists batches by name with their progress. It counts the tasks of the batches that it
shows and no others: about a second for half a million. With --json each line is a row
of sched.batch.`,
		Args: noArgs,
	}
	o.add(cmd)
	cmd.Flags().IntVar(&limit, "limit", defaultBatchLimit, "at most so many")
	cmd.Flags().StringVar(&after, "after", "", "go on behind the batch with this `name`")
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, _ []string) error {
		if err := checkLimit(limit); err != nil {
			return err
		}
		batches, err := op.Batches(ctx, after, limit)
		if err != nil {
			return err
		}
		if len(batches) == limit {
			defer s.note("there may be more: add --after '%s'", batches[len(batches)-1].Batch)
		}
		if s.json {
			return objects(s, batches, func(b operator.Batch) json.RawMessage { return b.JSON })
		}
		if len(batches) == 0 {
			s.note("no task belongs to a batch")

			return nil
		}

		return showBatches(s, batches)
	})

	return cmd
}

func showBatches(s *screen, batches []operator.Batch) error {
	t := table{columns: []column{
		{title: "BATCH", flexible: true},
		{title: "DONE", right: true},
		{title: "TASKS", right: true},
		{title: "WAIT", right: true},
		{title: "RUN", right: true},
		{title: "RETRY", right: true, optional: true},
		{title: "COMPLETED", right: true},
		{title: "CANCELLED", right: true, optional: true},
		{title: "DISCARDED", right: true, optional: true},
		{title: "FIRST", spare: true},
		{title: "LAST END", spare: true},
	}}
	for _, b := range batches {
		paint := map[int]color{}
		if b.Finished == b.Total {
			paint[1] = green
		}
		if b.Discarded > 0 {
			paint[8] = red
		}
		t.add(paint, b.Batch, share(b), number(b.Total), number(b.Available+b.Scheduled+b.Pending), number(b.Running), numberIfAny(b.Retryable),
			number(b.Completed), numberIfAny(b.Cancelled), numberIfAny(b.Discarded), localTime(b.FirstCreated), localTimeIfAny(b.LastEnded))
	}

	return t.write(s.out, s.width, s.color)
}

// numberIfAny leaves the cell of none empty: a column of nothing is left out.
func numberIfAny(n int64) string {
	if n == 0 {
		return ""
	}

	return number(n)
}

// share is a batch's progress in percent; 100 is said when nothing is left.
func share(b operator.Batch) string {
	if b.Finished == b.Total {
		return "100 %"
	}

	return fmt.Sprintf("%d %%", min(int(b.Progress*100), 99))
}

func batchesGetCommand(environ []string) *cobra.Command {
	var o operateOptions
	cmd := &cobra.Command{
		Use:   "get NAME",
		Short: "Show the progress of a batch",
		Long: `Shows how far a batch is. With --json it is a row of sched.batch. Exit code 3 if no
task belongs to it.`,
		Args: exactArgs("NAME"),
	}
	o.add(cmd)
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, args []string) error {
		b, err := op.Batch(ctx, args[0])
		if err != nil {
			return err
		}
		if s.json {
			return s.object(b.JSON)
		}

		return showBatch(s, b)
	})

	return cmd
}

func showBatch(s *screen, b operator.Batch) error {
	var f facts
	f.add("batch", b.Batch)
	f.addf("done", "%s, %s of %s", share(b), number(b.Finished), plural(b.Total, "task"))
	for _, c := range []struct {
		name  string
		count int64
	}{
		{"available", b.Available},
		{"scheduled", b.Scheduled},
		{"pending", b.Pending},
		{"running", b.Running},
		{"retryable", b.Retryable},
		{"completed", b.Completed},
		{"cancelled", b.Cancelled},
		{"discarded", b.Discarded},
	} {
		if c.count > 0 {
			f.add(c.name, number(c.count))
		}
	}
	f.add("first", preciseTime(&b.FirstCreated))
	f.add("last end", preciseTime(b.LastEnded))
	if b.LastEnded != nil && b.Finished == b.Total {
		f.add("took", span(b.LastEnded.Sub(b.FirstCreated).Round(time.Millisecond)))
	}

	return f.write(s.out)
}
