package httpapp

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		value string
		want  time.Duration
		told  bool
	}{
		{"30", 30 * time.Second, true},
		{" 30 ", 30 * time.Second, true},
		{"1", time.Second, true},
		{"0", time.Second, true},
		{"3600", time.Hour, true},
		{"3601", time.Hour, true},
		{"99999999999999999999999999", time.Hour, true},
		{"Sun, 01 Mar 2026 12:00:30 GMT", 30 * time.Second, true},
		{"Sunday, 01-Mar-26 12:00:30 GMT", 30 * time.Second, true},
		{"Sun Mar  1 12:00:30 2026", 30 * time.Second, true},
		{"Sun, 01 Mar 2026 11:00:00 GMT", time.Second, true},
		{"Fri, 01 Jan 9999 00:00:00 GMT", time.Hour, true},
		{"Mon, 01 Jan 0001 00:00:00 GMT", time.Second, true},
		{"", 0, false},
		{"-1", 0, false},
		{"+5", 0, false},
		{"1.5", 0, false},
		{"soon", 0, false},
		{"٣", 0, false},
	} {
		got, told := retryAfter(tc.value, noon())
		require.Equal(t, tc.told, told, tc.value)
		require.Equal(t, tc.want, got, tc.value)
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("120", int64(0))
	f.Add(noon().Format(http.TimeFormat), noon().Unix())
	f.Add("99999999999999999999", int64(-1<<40))
	f.Fuzz(func(t *testing.T, value string, clock int64) {
		got, told := retryAfter(value, time.Unix(clock, 0))
		if !told {
			require.Zero(t, got)
			return
		}
		require.GreaterOrEqual(t, got, minRetryAfter)
		require.LessOrEqual(t, got, maxRetryAfter)
	})
}
