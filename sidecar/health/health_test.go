package health_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/sidecar/health"
)

// app is up, or down with an error.
type app struct{ err atomic.Pointer[error] }

func newApp(err error) *app {
	a := &app{}
	a.set(err)
	return a
}

func (a *app) set(err error) { a.err.Store(&err) }

func (a *app) Probe(context.Context) error { return *a.err.Load() }

type claims struct {
	mu    sync.Mutex
	holds map[string]bool
}

func (c *claims) Hold(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds[reason] = true
}

func (c *claims) Release(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.holds, reason)
}

func (c *claims) held() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.holds[health.HoldName]
}

func TestClaimsAreHeldWhileTheAppIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		app, claims := newApp(errors.New("refused")), &claims{holds: map[string]bool{}}
		w := health.NewWatcher(app, time.Second, slog.New(slog.DiscardHandler))
		w.Guard(claims)
		require.True(t, claims.held(), "held until the first sign of life")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		after := func(d time.Duration) { <-time.After(d); synctest.Wait() } // virtual time

		after(1500 * time.Millisecond)
		require.True(t, claims.held())
		app.set(nil)
		after(time.Second)
		require.False(t, claims.held(), "the next probe that succeeds lifts the hold")
		app.set(errors.New("refused"))
		after(time.Second)
		require.True(t, claims.held(), "one failed probe is enough")
		app.set(nil)
		after(time.Second)
		require.False(t, claims.held())

		w.Down("connection refused")
		require.True(t, claims.held(), "a call that found nobody holds at once")
		after(time.Second)
		require.False(t, claims.held())
		cancel()
		require.NoError(t, <-done)
	})
}

// countingApp counts the probes of an app that is down.
type countingApp struct{ probes atomic.Int64 }

func (a *countingApp) Probe(context.Context) error {
	if a.probes.Add(1) > 5 {
		return nil
	}
	return errors.New("refused")
}

// lines is a log that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestAnAppThatDoesNotComeUpIsSaidOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &lines{}
		w := health.NewWatcher(newApp(errors.New("refused")), time.Second, slog.New(slog.NewTextHandler(log, nil)))
		w.Guard(&claims{holds: map[string]bool{}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()

		<-time.After(900 * time.Millisecond) // virtual time
		synctest.Wait()
		require.Empty(t, log.String(), "it may just have been started")
		<-time.After(time.Minute)
		cancel()
		require.NoError(t, <-done)
		require.Equal(t, 1, strings.Count(log.String(), "waiting for the app"))
		require.Contains(t, log.String(), "refused")
	})
}

func TestAnAppThatStartsIsProbedMoreOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		app, claims := &countingApp{}, &claims{holds: map[string]bool{}}
		w := health.NewWatcher(app, time.Second, slog.New(slog.DiscardHandler))
		w.Guard(claims)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()

		<-time.After(550 * time.Millisecond) // virtual time
		synctest.Wait()
		require.False(t, claims.held(), "noticed within a moment of its start")
		require.EqualValues(t, 6, app.probes.Load())
		<-time.After(2 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 8, app.probes.Load(), "from then on at the interval")
		cancel()
		require.NoError(t, <-done)
	})
}
