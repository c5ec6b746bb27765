package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLateness(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli
	nanos := func(ms int64) int64 { return at(ms).UnixNano() }
	due := []dueTimes{{1, []time.Time{at(100)}}, {2, []time.Time{at(200), at(700)}}}
	starts := []taskStart{{2, nanos(709)}, {1, nanos(101)}, {2, nanos(202)}} // 9, 1 and 2 ms late
	got, err := lateness(due, starts, 0)
	require.NoError(t, err)
	require.Equal(t, latencies{p50: 2, p99: 9}, got)

	got, err = lateness(due, starts, 5*time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, latencies{p50: 7, p99: 14}, got, "the server's clock is ahead: it was later there")

	_, err = lateness(due[1:], []taskStart{{2, nanos(709)}}, 0)
	require.EqualError(t, err, "task 2 was due 2 times and started 1 times")
}
