package bench

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReportPrintsATable(t *testing.T) {
	t.Parallel()
	var out, notes strings.Builder
	r := NewReport(&out, &notes, false)
	require.NoError(t, r.limits("drain", []limit{{"slots", "200"}, {"pool", "10"}}))
	require.NoError(t, r.add(
		newFigure("drain.http.vs_river", 0.5, "ratio", Bound{}, 3),
		newFigure("governor.resize.max_over_limit", 2, "tasks", AtMost(0), 3)))
	r.note("round %d", 1)

	err := r.Close()

	require.ErrorIs(t, err, ErrFellShort)
	require.EqualError(t, err, "a figure fell short of its bound: governor.resize.max_over_limit is 2, bound <= 0")
	require.Equal(t, `drain: slots 200, pool 10
figure                          value  unit   bound     ok   rounds
drain.http.vs_river             0.5    ratio  reported  yes  3
governor.resize.max_over_limit  2      tasks  <= 0      NO   3
`, out.String())
	require.Contains(t, notes.String(), "round 1\n")
}

func TestReportKeepsJSONToItself(t *testing.T) {
	t.Parallel()
	var out, notes strings.Builder
	r := NewReport(&out, &notes, true)
	require.NoError(t, r.limits("idle", []limit{{"duration", "20s"}}))
	require.NoError(t, r.add(newFigure("idle.rss_mb", 20, "MB", AtMost(25), 3)))
	require.JSONEq(t, `{"figure":"idle.rss_mb","value":20,"unit":"MB","bound":"<= 25","ok":true,"rounds":3}`,
		out.String(), "at once, so that a run that breaks off has shown what it had")
	require.Equal(t, "idle: duration 20s\n", notes.String())
	require.NoError(t, r.Close())
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
}

func TestReportTellsOfABrokenOutput(t *testing.T) {
	t.Parallel()
	r := NewReport(brokenWriter{}, brokenWriter{}, true)
	require.ErrorIs(t, r.add(newFigure("f", 1, "u", Bound{}, 1)), errBroken)
	require.ErrorIs(t, r.limits("f", nil), errBroken)
	table := NewReport(brokenWriter{}, brokenWriter{}, false)
	require.NoError(t, table.add(newFigure("f", 1, "u", Bound{}, 1)))
	require.ErrorIs(t, table.Close(), errBroken)
}

var errBroken = errors.New("broken pipe")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }
