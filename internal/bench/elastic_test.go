package bench

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func epoch(seconds float64) time.Time {
	return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func TestCourse(t *testing.T) {
	t.Parallel()
	c := course{8, []move{{epoch(1), 16, "demand"}, {epoch(3), 12, "shed"}, {epoch(9), 14, "demand"}}}
	require.Equal(t, 8, c.at(epoch(0.5)))
	require.Equal(t, 16, c.at(epoch(1)))
	require.Equal(t, 14, c.at(epoch(100)))
	seconds, least, most := c.span(epoch(0), epoch(4))
	require.InDelta(t, 8+32+12, seconds, 1e-9)
	require.Equal(t, 8, least)
	require.Equal(t, 16, most)
	require.InDelta(t, 13, c.mean(epoch(0), epoch(4)), 1e-9)
	require.InDelta(t, 12, c.mean(epoch(4), epoch(8)), 1e-9, "nothing moved")
	require.InDelta(t, 1.0/13, c.swing(epoch(4), epoch(10)), 1e-9)
	require.Zero(t, c.swing(epoch(4), epoch(8)))
	require.Equal(t, "8 +0.0s:16(demand) +2.0s:12(shed) +8.0s:14(demand)", c.tell(epoch(1)))
}

func TestWaitsAndSharesAroundSteps(t *testing.T) {
	t.Parallel()
	tasks := []done{
		{Due: 1, Ended: 2, WaitMillis: 100},
		{Due: 6, Ended: 7, WaitMillis: 1},
		{Due: 12, Ended: 13, WaitMillis: 200},
		{Due: 14.9, Ended: 15.1, WaitMillis: 300},
		{Due: 15, Ended: 16, WaitMillis: 2},
	}
	require.Equal(t, []float64{1, 2}, steadyWaits(tasks, []float64{0, 10}, 5))
	require.InDelta(t, 0.5, servedShare(tasks, 10, 5), 1e-9)
	require.InDelta(t, 1, servedShare(tasks, 0, 5), 1e-9)
}

func TestStagesFollowEachOther(t *testing.T) {
	t.Parallel()
	stages := []stage{{10, time.Second}, {100, time.Second}, {10, time.Second}}
	require.Zero(t, dueIn(stages, 0))
	require.Equal(t, 900*time.Millisecond, dueIn(stages, 9))
	require.Equal(t, time.Second, dueIn(stages, 10))
	require.Equal(t, 1500*time.Millisecond, dueIn(stages, 60))
	require.Equal(t, 2*time.Second, dueIn(stages, 110))
}

func TestJointDecided(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		moves []move
		want  float64
	}{
		"as it should be": {[]move{{epoch(-1), 16, "demand: 16 needed"}, {epoch(7.5), 20, "joint: score"}, {epoch(8.5), 25, "joint: score"}}, 1},
		"nothing":         {nil, 0},
		"before":          {[]move{{epoch(3), 20, "joint: score"}, {epoch(7.5), 25, "joint: score"}}, 0},
		"demand did it":   {[]move{{epoch(7.5), 20, "demand: 20 needed"}}, 0},
		"too late":        {[]move{{epoch(9.5), 20, "joint: score"}}, 0},
	} {
		require.InDelta(t, test.want, jointDecided(course{16, test.moves}, epoch(0), epoch(6)), 0, name)
	}
}

func TestRecovery(t *testing.T) {
	t.Parallel()
	moves := []move{{epoch(1), 10, "push-back"}, {epoch(2), 4, "push-back"}, {epoch(13), 8, "demand"}, {epoch(14), 16, "demand"}, {epoch(15), 19, "demand"}}
	require.InDelta(t, 3, recovery(course{20, moves}, epoch(0), epoch(11)), 1e-9)
	require.InDelta(t, 0, recovery(course{20, nil}, epoch(0), epoch(11)), 0)
	require.Greater(t, recovery(course{20, moves[:3]}, epoch(0), epoch(11)), 1e9, "never")
}

func TestElasticIsValidated(t *testing.T) {
	t.Parallel()
	require.NoError(t, defaultElastic().validate())
	for name, change := range map[string]func(*ElasticConfig){
		"part":     func(c *ElasticConfig) { c.Parts = []string{"io_step", "cpu"} },
		"duration": func(c *ElasticConfig) { c.Duration = time.Hour },
		"ceiling":  func(c *ElasticConfig) { c.Ceiling = 1 },
		"cores":    func(c *ElasticConfig) { c.Cores = -1 },
		"resizes":  func(c *ElasticConfig) { c.Resizes = 1 },
	} {
		set := defaultElastic()
		change(&set)
		require.Error(t, set.validate(), name)
	}
}

func TestFixedSettingsAreChosenByWhatAppsBear(t *testing.T) {
	t.Parallel()
	set := ElasticConfig{Ceiling: 64, Cores: 2, Width: 20}.complete()
	require.Equal(t, []int{32, 64}, set.IOSweep)
	require.Equal(t, []int{2, 4, 6, 8, 16, 64}, set.CPUSweep)
	require.Equal(t, []int{10, 20, 24, 32, 64}, set.DownSweep)
	require.Equal(t, []int{3}, ElasticConfig{Ceiling: 64, DownSweep: []int{3}}.complete().DownSweep)
}

func TestAppModels(t *testing.T) {
	t.Parallel()
	require.NotZero(t, compute(10_000))
	require.NotEqual(t, compute(10), compute(11))
	require.Positive(t, roundsFor(time.Millisecond))

	narrow := newAppModel(time.Minute, 1, 0)
	narrow.places <- struct{}{} // somebody is there
	ctx, hangUp := context.WithCancelCause(t.Context())
	waited := make(chan error, 1)
	go func() { waited <- narrow.take(ctx) }()
	gone := errors.New("gone")
	hangUp(gone)
	require.ErrorIs(t, <-waited, gone, "there was no place")
	require.NoError(t, newAppModel(0, 0, 5).take(t.Context()))

	mux := http.NewServeMux()
	narrow.routes(mux)
	ask := func(path string) int {
		response := httptest.NewRecorder()
		mux.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		return response.Code
	}
	require.False(t, narrow.turnsDown(httptest.NewRecorder()))
	require.Equal(t, http.StatusBadRequest, ask(pathRefuse))
	require.Equal(t, http.StatusOK, ask(pathRefuse+"?for=1m"))
	response := httptest.NewRecorder()
	require.True(t, narrow.turnsDown(response))
	require.Equal(t, http.StatusTooManyRequests, response.Code)
	require.Equal(t, "1", response.Header().Get("Retry-After"))
	require.Equal(t, http.StatusOK, ask(pathRefuse+"?for=0s"))
	require.False(t, narrow.turnsDown(httptest.NewRecorder()))
}
