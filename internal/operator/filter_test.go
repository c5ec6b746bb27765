package operator

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestFilterValidate(t *testing.T) {
	t.Parallel()
	noon := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	require.NoError(t, Filter{}.Validate())
	require.NoError(t, Filter{Statuses: Statuses(), Since: noon, Until: noon.Add(1)}.Validate())
	for _, f := range []Filter{{Statuses: []string{"done"}}, {Statuses: []string{"}"}}, {Since: noon, Until: noon}} {
		require.ErrorIs(t, f.Validate(), ErrInvalid)
	}
	require.ErrorContains(t, Filter{Statuses: []string{"done"}}.Validate(), `status "done": use scheduled, pending, `)
}

func TestFilterEmpty(t *testing.T) {
	t.Parallel()
	require.True(t, Filter{}.Empty())
	for _, f := range []Filter{
		{Statuses: []string{"running"}},
		{Kinds: []string{"mail"}},
		{Queues: []string{"q"}},
		{Batch: "b"},
		{Since: time.Now()},
		{Until: time.Now()},
		{Worker: "w"},
	} {
		require.False(t, f.Empty(), "%+v", f)
	}
}

// A cursor is read back as it was written, in lists of its own order only.
func TestCursor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := cursor{id: rapid.Int64Min(1).Draw(t, "id")}
		byStart := rapid.Bool().Draw(t, "by start")
		if byStart {
			c.start = time.UnixMicro(rapid.Int64Range(1, 1<<52).Draw(t, "micros"))
		}
		got, err := parseCursor(c.String(), byStart)
		require.NoError(t, err)
		require.True(t, got.start.Equal(c.start))
		require.Equal(t, c.id, got.id)
		_, err = parseCursor(c.String(), !byStart)
		require.ErrorIs(t, err, ErrInvalid)
	})
	for _, text := range []string{"x", "0", "-1", "1.", ".1", "1.x", "9223372036854775808"} {
		_, err := parseCursor(text, strings.Contains(text, "."))
		require.ErrorIs(t, err, ErrInvalid, text)
	}
	none, err := parseCursor("", true)
	require.NoError(t, err)
	require.Equal(t, cursor{}, none)
}

func TestZoneOf(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	require.Equal(t, "<+00:00>-00:00", zoneOf(at))
	require.Equal(t, "<+05:30>-05:30", zoneOf(at.In(time.FixedZone("", 5*3600+1800))))
	require.Equal(t, "<-08:00>+08:00", zoneOf(at.In(time.FixedZone("", -8*3600))))
}
