package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/app"
	"github.com/sched-sidecar/sched/internal/config"
)

// runsCommand executes `sched-sidecar run` and returns the options that it runs with.
func runsCommand(t *testing.T, environ []string, args ...string) app.Options {
	t.Helper()
	var got app.Options
	root := sidecarCommand(environ, func(_ context.Context, _ config.Sidecar, opts app.Options) error {
		got = opts

		return nil
	})
	require.Equal(t, result{}, runs(root, nil, append([]string{"run"}, args...)...))

	return got
}

func TestRunWithACommand(t *testing.T) {
	t.Parallel()

	opts := runsCommand(t, []string{"SCHED_APP_URL=http://127.0.0.1:3000", "A=b"}, "--slots-ceiling=3", "--", "node", "--inspect", "app.js", "--", "x")

	require.Equal(t, []string{"node", "--inspect", "app.js", "--", "x"}, opts.App.Args)
	require.Equal(t, []string{"SCHED_APP_URL=http://127.0.0.1:3000", "A=b"}, opts.App.Env)
	require.Nil(t, opts.App.Stdin)
	require.Nil(t, opts.App.Stdout, "a test's buffer is no file")
	require.NotNil(t, opts.AppSignals)
	require.False(t, opts.UntilEmpty)

	opts = runsCommand(t, nil, "--until-empty")
	require.Nil(t, opts.App)
	require.True(t, opts.UntilEmpty)
	require.True(t, runsCommand(t, nil, "--until-empty", "--", "node").UntilEmpty)
}

func TestRunExitsAsItsCommandDid(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		want result
	}{
		"a code":            {&app.ExitError{Code: 3}, result{code: 3}},
		"a signal":          {&app.ExitError{Code: 143}, result{code: 143}},
		"a code and a word": {&app.ExitError{Code: 127, Err: errors.New("there is no node")}, result{code: 127, stderr: "sched-sidecar: there is no node\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := sidecarCommand(nil, func(context.Context, config.Sidecar, app.Options) error { return tt.err })
			require.Equal(t, tt.want, runs(root, nil, "run", "--", "node"))
		})
	}
}

func TestSecondSignalKillsTheCommand(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 2)
	events, exited := make(chan string, 2), make(chan struct{})
	root := sidecarCommand(nil, func(_ context.Context, _ config.Sidecar, opts app.Options) error {
		opts.AppStarted(func() { events <- "killed" })
		signals <- syscall.SIGINT
		signals <- syscall.SIGTERM
		select {
		case <-exited:
		case <-time.After(time.Minute):
		}

		return nil
	})
	var stderr strings.Builder
	p := Process{Args: []string{"run", "--", "node"}, Stdout: &stderr, Stderr: &stderr, Signals: signals, Exit: func(int) {
		events <- "exited"
		close(exited)
	}}

	p.execute(root)
	close(events)

	require.Equal(t, "killed", <-events)
	require.Equal(t, "exited", <-events)
	require.Empty(t, events)
}

// A Ctrl-C under npm comes twice, from the terminal and from npm.
func TestSignalThatComesTwiceAtOnceIsOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal) // a send is over when it has been taken
		root := sidecarCommand(nil, func(ctx context.Context, _ config.Sidecar, _ app.Options) error {
			signals <- syscall.SIGINT
			signals <- syscall.SIGINT
			<-ctx.Done()

			return nil
		})
		exit := func(int) { t.Error("exited") }
		p := Process{Args: []string{"run"}, Stdout: &strings.Builder{}, Stderr: &strings.Builder{}, Signals: signals, Exit: exit}

		require.Equal(t, exitOK, p.execute(root))
	})
}

func TestInputOfTheCommand(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = read.Close() }()
	defer func() { _ = write.Close() }()

	require.Same(t, read, inputFile(read))
	require.Nil(t, inputFile(&bytes.Buffer{}))
}

// Not parallel: signals are the whole process's.
func TestSignalsArePassedOn(t *testing.T) { //nolint:paralleltest // see above
	signals, stop := passedOn(syscall.SIGUSR1)
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGUSR1))
	select {
	case sig := <-signals:
		require.Equal(t, syscall.SIGUSR1, sig)
	case <-time.After(time.Minute):
		require.FailNow(t, "no signal")
	}
	stop()

	signal.Ignore(syscall.SIGUSR2)
	defer signal.Reset(syscall.SIGUSR1, syscall.SIGUSR2)
	_, stop = passedOn(syscall.SIGUSR2)
	defer stop()
	require.True(t, signal.Ignored(syscall.SIGUSR2), "as nohup wants it")
}
