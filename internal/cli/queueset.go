package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sched-sidecar/sched/internal/fleetfile"
	"github.com/sched-sidecar/sched/internal/operator"
)

// clears is what a person writes for a key that is not to be set.
const clears = "none"

func queuesSetCommand(environ []string) *cobra.Command {
	var o operateOptions
	var pin, unpin bool
	given := map[string]*string{}
	cmd := &cobra.Command{
		Use:   "set NAME... --KEY VALUE...",
		Short: "Configure queues: strategy, admission and limits",
		Long: `Configures the queues with these very names (one that is derived from another is named in
full: 'NAME|hash'). What is given is set, the value none clears it, and the rest stays.
Sidecars and enqueues obey at once. "sched apply" sets it back to what its file says,
unless --pin keeps it away. Exit code 3, with nothing done, if there is no queue of a
name: one that has had no task yet is made with "sched apply".`,
		Args: someArgs("NAME"),
	}
	o.add(cmd)
	for _, f := range fleetfile.Queues.Fields() {
		flag := strings.ReplaceAll(f.Key, "_", "-")
		given[f.Key] = cmd.Flags().String(flag, "", strings.ToLower(f.Doc[:1])+strings.TrimSuffix(f.Doc[1:], "."))
		if f.Enum != nil {
			oneOf(cmd, flag, append(slices.Clone(f.Enum), clears))
		}
	}
	cmd.Flags().BoolVar(&pin, "pin", false, "keep \"sched apply\" from changing them")
	cmd.Flags().BoolVar(&unpin, "unpin", false, "let it change them again")
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, args []string) error {
		if err := notBoth(cmd, "pin", "unpin"); err != nil {
			return err
		}
		values, err := queueValues(cmd, given)
		if err != nil {
			return err
		}
		if pin || unpin {
			values["pinned"] = pin
		}
		if len(values) == 0 {
			return &usageError{fmt.Errorf("%snothing to set; see %s --help", pathBelowRoot(cmd), cmd.CommandPath())}
		}
		rows, err := op.SetQueue(ctx, args, values)
		if err != nil {
			return err
		}
		if s.json {
			return objects(s, rows, func(row json.RawMessage) json.RawMessage { return row })
		}
		for _, name := range args {
			if err := s.say("queue %s: %s", clean(name), settingText(values)); err != nil {
				return err
			}
		}

		return nil
	})

	return cmd
}

// queueValues reads the flags that were given; nil clears a key.
func queueValues(cmd *cobra.Command, given map[string]*string) (map[string]any, error) {
	values := map[string]any{}
	for _, f := range fleetfile.Queues.Fields() {
		flag := strings.ReplaceAll(f.Key, "_", "-")
		if !cmd.Flags().Changed(flag) {
			continue
		}
		text := *given[f.Key]
		if text == clears {
			values[f.Key] = nil
			continue
		}
		v, err := f.Parse(text)
		if err != nil {
			return nil, &usageError{fmt.Errorf("--%s %s: %w, or %s", flag, text, err, clears)}
		}
		values[f.Key] = v
	}

	return values, nil
}

func settingText(values map[string]any) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, key+" "+fleetfile.Show(values[key]))
	}

	return strings.Join(parts, ", ")
}
