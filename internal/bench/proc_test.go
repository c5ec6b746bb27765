package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	got, err := parseStat([]byte("4242 (a (b) c) S 17 4242 4242 0 -1 4194560 9 8 7 6 150 25 1000 5 20 0 1 0 12345 1 2\n"))
	require.NoError(t, err)
	require.Equal(t, procStat{name: "a (b) c", parent: 17, own: 1750 * time.Millisecond, reaped: 10050 * time.Millisecond}, got)
}

func TestParseStatRefusesWhatItIsNot(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"", "12", ")(", "1 (x) S 2", "1 (x) S p 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17",
		"1 (x) S 2 3 4 5 6 7 8 9 10 11 u 13 14 15 16",
	} {
		_, err := parseStat([]byte(line))
		require.Errorf(t, err, "%q", line)
	}
}

func TestParseResident(t *testing.T) {
	t.Parallel()
	got, err := parseResident([]byte("Name:\tx\nVmHWM:\t  99 kB\nVmRSS:\t   2048 kB\nThreads:\t1\n"))
	require.NoError(t, err)
	require.EqualValues(t, 2<<20, got)
	_, err = parseResident([]byte("Name:\tkthreadd\n"))
	require.ErrorIs(t, err, errNoProc)
	_, err = parseResident([]byte("VmRSS:\tmany kB\n"))
	require.Error(t, err)
}

func TestParseMachine(t *testing.T) {
	t.Parallel()
	got, err := parseMachine([]byte("cpu  100 20 30 5000 400 5 6 7 1000 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n"))
	require.NoError(t, err)
	require.Equal(t, 1680*time.Millisecond, got)
	for _, text := range []string{"", "cpu 1 2 3", "cpu a b c d e f g h", "intr 1 2 3 4 5 6 7 8 9"} {
		_, err := parseMachine([]byte(text))
		require.Errorf(t, err, "%q", text)
	}
}

func TestNoSuchProcess(t *testing.T) {
	t.Parallel()
	const nobody = 1 << 30
	_, err := processCPU(nobody)
	require.ErrorIs(t, err, errNoProc)
	_, err = treeCPU(nobody)
	require.ErrorIs(t, err, errNoProc)
	_, err = residentBytes(nobody)
	require.ErrorIs(t, err, errNoProc)
	require.Zero(t, postmasterOf(nobody))
}
