package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sched-sidecar/sched/internal/operator"
)

func canaryCommand(environ []string) *cobra.Command {
	return listGroup("canary", "Show and move what share of a queue canary workers get",
		func() *cobra.Command { return canaryListCommand(environ) },
		canaryStartCommand(environ),
		canarySetCommand(environ),
		canaryStopCommand(environ))
}

func canaryListCommand(environ []string) *cobra.Command {
	var o operateOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List canaries",
		Long: `Lists the queues with a canary: PERCENT of their tasks, told by their ids, go to workers
with the label track=canary (WORKERS of them are assigned; while there is none, all goes
to the others). The state is off, rising, held (an operator set the share), full (all)
or rolled_back (it failed too often, and got nothing any more).`,
		Args: noArgs,
	}
	o.add(cmd)
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, _ []string) error {
		list, err := op.Canaries(ctx, "")
		if err != nil {
			return err
		}
		if !s.json && len(list) == 0 {
			s.note("no canary: sched canary start QUEUE makes one")

			return nil
		}

		return showCanaries(s, list...)
	})

	return cmd
}

func showCanaries(s *screen, list ...operator.Canary) error {
	if s.json {
		return objects(s, list, func(c operator.Canary) json.RawMessage { return c.JSON })
	}
	t := table{columns: []column{
		{title: "QUEUE", flexible: true},
		{title: "STATE"},
		{title: "PERCENT", right: true},
		{title: "WORKERS", right: true},
		{title: "HOLD", right: true},
		{title: "SINCE"},
		{title: "REASON", flexible: true, optional: true},
	}}
	for _, c := range list {
		paint := map[int]color{}
		if c.State == "rolled_back" {
			paint[1] = red
		}
		if c.Percent > 0 && c.Workers == 0 {
			paint[3] = red
		}
		t.add(paint, c.Queue, c.State, strconv.FormatFloat(c.Percent, 'f', -1, 64), number(c.Workers),
			span(time.Duration(c.HoldSeconds*float64(time.Second))), localTime(c.StepAt), c.Reason)
	}

	return t.write(s.out, s.width, s.color)
}

func canaryStartCommand(environ []string) *cobra.Command {
	var o operateOptions
	var hold, p95 spanValue
	var steps []float64
	var errorPoints, cpuPoints, abort float64
	cmd := &cobra.Command{
		Use:   "start QUEUE",
		Short: "Let the canary's share of a queue rise",
		Long: `Lets the share of a queue's tasks that go to workers with the label track=canary rise
through steps, as long as those do as well as the others: each step must hold for some
time. At too many errors it goes back to 0. It begins where it is held, or else with the
first step. What is not given stays as it is (at first: 5, 15, 30, 50, 75 and 100 %, 3
minutes each). Exit code 3 if there is no such queue.`,
		Args: exactArgs("QUEUE"),
	}
	o.add(cmd)
	fs := cmd.Flags()
	fs.Float64SliceVar(&steps, "steps", nil, "the shares in percent, rising, like 5,25,100")
	fs.Var(&hold, "hold", "how long a step must do well before the next (1s to 7d)")
	fs.Var(&p95, "max-p95", "most by which the 95th percentiles of run time may differ")
	fs.Float64Var(&errorPoints, "max-error-points", 0, "most by which its error rate may be higher, in percentage points")
	fs.Float64Var(&cpuPoints, "max-cpu-points", 0, "most by which its cpu may be higher, in percentage points")
	fs.Float64Var(&abort, "abort-error-percent", 0, "error rate above which it goes back to 0, in percent")
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, args []string) error {
		rules := operator.CanaryRules{Steps: steps, Hold: hold.d, MaxP95: p95.d}
		for flag, to := range map[string]**float64{
			"max-error-points": &rules.MaxErrorPoints, "max-cpu-points": &rules.MaxCPUPoints, "abort-error-percent": &rules.AbortErrorPercent,
		} {
			if v, err := fs.GetFloat64(flag); err == nil && fs.Changed(flag) {
				*to = &v
			}
		}
		if err := checkCanary(rules, hold.given); err != nil {
			return err
		}
		c, err := op.StartCanary(ctx, args[0], rules)
		if err != nil {
			return err
		}

		return showCanaries(s, c)
	})

	return cmd
}

// checkCanary refuses what makes no sense.
func checkCanary(rules operator.CanaryRules, holdGiven bool) error {
	last := 0.0
	for _, step := range rules.Steps {
		if step <= last || step > 100 {
			return &usageError{fmt.Errorf("--steps: %v is not above the step before and up to 100", step)}
		}
		last = step
	}
	const week = 7 * 24 * time.Hour
	if holdGiven && (rules.Hold < time.Second || rules.Hold > week) {
		return &usageError{fmt.Errorf("--hold %s: use 1s to 7d", rules.Hold)}
	}
	for flag, v := range map[string]*float64{
		"max-error-points": rules.MaxErrorPoints, "max-cpu-points": rules.MaxCPUPoints, "abort-error-percent": rules.AbortErrorPercent,
	} {
		if v != nil && !(*v >= 0 && *v <= 100) {
			return &usageError{fmt.Errorf("--%s %v: use 0 to 100", flag, *v)}
		}
	}

	return nil
}

func canarySetCommand(environ []string) *cobra.Command {
	var o operateOptions
	cmd := &cobra.Command{
		Use:   "set QUEUE PERCENT",
		Short: "Give the canary a share of a queue and keep it there",
		Long: `Gives workers with the label track=canary a share of a queue's tasks, in percent, and keeps
it there until "sched canary start" lets it rise or "stop" ends it. Exit code 3 if there
is no such queue.`,
		Args: exactArgs("QUEUE", "PERCENT"),
	}
	o.add(cmd)
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, args []string) error {
		percent, err := strconv.ParseFloat(args[1], 64)
		if err != nil || !(percent >= 0 && percent <= 100) {
			return &usageError{fmt.Errorf("%q is no share: use 0 to 100", args[1])}
		}
		c, err := op.HoldCanary(ctx, args[0], percent)
		if err != nil {
			return err
		}

		return showCanaries(s, c)
	})

	return cmd
}

func canaryStopCommand(environ []string) *cobra.Command {
	var o operateOptions
	cmd := &cobra.Command{
		Use:   "stop QUEUE",
		Short: "End the canary of a queue",
		Long: `Ends the canary of a queue: all its tasks go to the other workers. Exit code 3 if there is
no such queue.`,
		Args: exactArgs("QUEUE"),
	}
	o.add(cmd)
	cmd.RunE = o.run(environ, func(ctx context.Context, op *operator.Operator, s *screen, args []string) error {
		c, err := op.HoldCanary(ctx, args[0], 0)
		if err != nil {
			return err
		}

		return showCanaries(s, c)
	})

	return cmd
}
