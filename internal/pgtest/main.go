package pgtest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Main runs a package's tests, ends the shared server and fails when a goroutine is left over:
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// options are goleak's, for goroutines of libraries that cannot be ended.
func Main(m *testing.M, options ...goleak.Option) {
	os.Exit(Run(m, options...)) //nolint:forbidigo // it is the end of a test binary's main function
}

// Run is Main for a package that has something of its own to undo: it returns the exit code.
func Run(m *testing.M, options ...goleak.Option) int {
	code := m.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest: ending the shared server:", err)
		code = max(code, 1)
	}
	// A failed test may well leave goroutines; they'd only hide why it failed.
	if code == 0 {
		if err := Leaked(options...); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest: goroutines left after the tests:", err)
			code = 1
		}
	}
	return code
}

// Leaked is goleak.Find with more patience: on a busy machine, goroutines that were told to end take a while.
func Leaked(options ...goleak.Option) error {
	const patience = 10 * time.Second
	begun := time.Now()
	for {
		err := goleak.Find(options...)
		if err == nil || time.Since(begun) > patience {
			return err
		}
	}
}

// closeShared ends the shared server if a test started it.
func closeShared() error {
	if !started.Load() {
		return nil
	}
	c, err := shared()
	if err != nil {
		return nil // the tests that wanted the server have reported it
	}
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	return c.close(ctx)
}
