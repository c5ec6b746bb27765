package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	const ms = int64(time.Millisecond)
	committed := map[int64]int64{1: 100 * ms, 2: 200 * ms, 3: 300 * ms}
	got, err := match(committed, []taskStart{
		{TaskID: 9, Nanos: 1},          // a warm-up task
		{TaskID: 2, Nanos: 203 * ms},   // 3 ms
		{TaskID: 1, Nanos: 99 * ms},    // before its producer knew
		{TaskID: 3, Nanos: 310 * ms},   // 10 ms
		{TaskID: 3, Nanos: 90000 * ms}, // a second attempt
	})
	require.NoError(t, err)
	require.Equal(t, latencies{p50: 3, p99: 10}, got)

	_, err = match(committed, []taskStart{{TaskID: 1, Nanos: 1}})
	require.EqualError(t, err, "1 of 3 tasks started")
}
