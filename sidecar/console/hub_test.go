package console

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeFeed counts how often it is asked.
type fakeFeed struct {
	samples atomic.Int64
	err     atomic.Pointer[error]
}

func (f *fakeFeed) fail(err error) { f.err.Store(&err) }

func (f *fakeFeed) failure() error {
	if err := f.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (f *fakeFeed) sample(context.Context, []sample) (sample, error) {
	return sample{At: float64(f.samples.Add(1))}, f.failure()
}

func (f *fakeFeed) tables(context.Context, topic) ([]byte, error) {
	return []byte("<p>"), f.failure()
}

func startHub(t *testing.T, f feed) *hub {
	t.Helper()
	h := newHub(f, 8, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return h
}

func drain(v *viewer) []string {
	var events []string
	for {
		select {
		case m, open := <-v.messages:
			if !open {
				return append(events, "closed")
			}
			events = append(events, m.event)
		default:
			return events
		}
	}
}

// Nobody who looks costs nothing, and many cost what one does.
func TestHubPollsForThoseWhoLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeFeed{}
		h := startHub(t, f)
		<-time.After(time.Hour)
		require.Zero(t, f.samples.Load())

		one, two := h.join(topicOverview), h.join(topicOverview)
		synctest.Wait()
		require.Equal(t, "history", drain(one)[0])
		before := f.samples.Load()
		<-time.After(10 * time.Second)
		require.InDelta(t, 10, f.samples.Load()-before, 1)
		require.Contains(t, drain(two), "tables")
		h.leave(one)
		h.leave(two)
		<-time.After(time.Hour)
		require.Less(t, f.samples.Load(), before+10+int64(linger/pollEvery)+4, "it ends a little after the last one left")

		three := h.join(topicQueues)
		synctest.Wait()
		require.Equal(t, []string{"history", "sample", "tables"}, drain(three))
	})
}

func TestHubRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeFeed{}
		f.fail(errors.New("gone"))
		h := startHub(t, f)
		v := h.join(topicOverview)
		synctest.Wait()
		require.Equal(t, []string{"history", "trouble"}, drain(v))
		late := h.join(topicOverview)
		require.Equal(t, []string{"history", "trouble"}, drain(late), "whoever comes later is told at once")
		synctest.Wait()
		f.fail(nil)
		drain(v)
		<-time.After(2 * time.Second)
		require.Subset(t, drain(v), []string{"sample", "tables"})
	})
}

// Who doesn't read is cut off, and holds nobody up.
func TestHubDropsTheSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := startHub(t, &fakeFeed{})
		slow, quick := h.join(topicOverview), h.join(topicOverview)
		for range 3 * viewerBacklog {
			<-time.After(pollEvery)
			require.NotContains(t, drain(quick), "closed")
		}
		require.Contains(t, drain(slow), "closed")
	})
}

func TestHubEnds(t *testing.T) {
	t.Parallel()
	h := newHub(&fakeFeed{}, 8, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	v := h.join(topicOverview)
	stop()
	h.run(ctx)
	require.Contains(t, drain(v), "closed")
	require.Nil(t, h.join(topicOverview))
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := startHub(t, &fakeFeed{})
		v := h.join(topicOverview)
		for range 2 * historyLength {
			<-time.After(pollEvery)
			drain(v)
		}
		require.Len(t, h.history, historyLength)
	})
}
