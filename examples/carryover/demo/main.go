package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are the demo's flags.
type options struct {
	orders int
	slots  int
	pace   time.Duration
	limit  time.Duration
	bin    string
	keep   bool
}

// errNotCarried ends a demo that didn't go as it promises.
var errNotCarried = errors.New("the demo failed")

func main() {
	var o options
	flag.IntVar(&o.orders, "orders", 50_000, "book this `many` orders")
	flag.IntVar(&o.slots, "slots", 4, "tasks that a sidecar may run at once")
	flag.DurationVar(&o.pace, "pace", 2*time.Second, "`time` that a task of 500 orders takes at least")
	flag.DurationVar(&o.limit, "limit", 3*time.Minute, "give up after this `time`")
	flag.StringVar(&o.bin, "bin", "", "use sched-sidecar and carryover from this `directory` instead of building them")
	flag.BoolVar(&o.keep, "keep", os.Getenv("KEEP") != "" && os.Getenv("KEEP") != "0", "leave everything up for exploring, until Ctrl-C")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o, newScreen(os.Stdout, time.Now()))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "carryover:", err)
		os.Exit(1)
	}
}

// run stages the demo, plays it, checks the books and clears everything away.
func run(ctx context.Context, o options, out *screen) error {
	if o.orders < 2 || o.slots < 1 {
		return fmt.Errorf("-orders %d -slots %d: there must be at least 2 orders and 1 slot", o.orders, o.slots)
	}
	st := newStage(o, out)
	defer st.clear()
	// Compiling is no part of what is shown: with a cold cache it takes minutes.
	err := st.build(ctx)
	limited, cancel := context.WithTimeoutCause(ctx, o.limit,
		fmt.Errorf("not done within the limit of %s", o.limit))
	defer cancel()
	if err == nil {
		err = st.set(limited)
	}
	if err == nil {
		err = play(limited, st)
	}
	if err == nil {
		err = audit(limited, st)
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return errors.New("interrupted")
	default:
		st.keepLogs = true
		if cause := context.Cause(limited); cause != nil {
			err = cause
		}
		out.say("failed: %v", err)
		diagnose(context.WithoutCancel(ctx), st)
		err = fmt.Errorf("%w: %w", errNotCarried, err)
	}
	if o.keep && st.pool != nil && ctx.Err() == nil {
		explore(st)
		<-ctx.Done()
	}
	return err
}
