package health_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/sidecar/health"
)

type app struct{ err error }

func (a *app) Probe(context.Context) error { return a.err }

type claims struct{ holds map[string]bool }

func (c *claims) Hold(reason string)    { c.holds[reason] = true }
func (c *claims) Release(reason string) { delete(c.holds, reason) }
func (c *claims) held() bool            { return c.holds[health.HoldName] }

func TestClaimsAreHeldWhileTheAppIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		app, claims := &app{err: errors.New("refused")}, &claims{holds: map[string]bool{}}
		w := health.NewWatcher(app, time.Second, slog.New(slog.DiscardHandler))
		w.Guard(claims)
		require.True(t, claims.held(), "held until the first sign of life")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		after := func(d time.Duration) { <-time.After(d); synctest.Wait() } // virtual time

		after(1500 * time.Millisecond)
		require.True(t, claims.held())
		app.err = nil
		after(time.Second)
		require.False(t, claims.held(), "the next probe that succeeds lifts the hold")
		app.err = errors.New("refused")
		after(time.Second)
		require.True(t, claims.held(), "one failed probe is enough")
		app.err = nil
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
type countingApp struct{ probes int }

func (a *countingApp) Probe(context.Context) error {
	a.probes++
	if a.probes > 5 {
		return nil
	}
	return errors.New("refused")
}

func TestAnAppThatDoesNotComeUpIsSaidOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := health.NewWatcher(&app{err: errors.New("refused")}, time.Second, slog.New(slog.NewTextHandler(&log, nil)))
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
		require.Equal(t, 6, app.probes)
		<-time.After(2 * time.Second)
		synctest.Wait()
		require.Equal(t, 8, app.probes, "from then on at the interval")
		cancel()
		require.NoError(t, <-done)
	})
}
