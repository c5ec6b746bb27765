package bench

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// texts are those of a drawing, which must be XML from begin to end.
func texts(t *testing.T, drawing string) (texts []string) {
	t.Helper()
	inText := false
	for decoder := xml.NewDecoder(strings.NewReader(drawing)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "text"
		case xml.EndElement:
			inText = false
		case xml.CharData:
			if inText {
				texts = append(texts, string(token))
			}
		}
	}
}

func TestChartNamesEveryFigure(t *testing.T) {
	t.Parallel()
	r := NewReport(io.Discard, io.Discard, false)
	require.NoError(t, r.limits("machine", []limit{{"cores", "2"}, {"load average", "0.1"}}))
	require.NoError(t, r.limits("drain", []limit{{"tasks", "20"}}))
	figures := []Figure{
		newFigure("latency.p99_ms", 17, "ms", AtMost(10), 3),
		newFigure("drain.http.vs_river", 0.5, "ratio", AtLeast(0.4), 3),
		newFigure("drain.http.tasks_per_s", 12345, "1/s", Bound{}, 3),
		newFigure("elastic.slots", 27, "slots", Within(15, 40), 3),
		newFigure("resize.over", 0, "tasks", AtMost(0), 3),
		newFigure("odd", math.NaN(), "us", Bound{}, 3),
		newFigure("endless", math.Inf(1), "us", Bound{}, 3),
	}
	require.NoError(t, r.add(figures...))
	var b strings.Builder
	require.NoError(t, r.WriteSVG(&b, "drain <all>"))

	got := texts(t, b.String())
	require.Equal(t, []string{"drain <all>", "cores 2, load average 0.1"}, got[:2])
	for _, f := range figures {
		i := slices.Index(got, f.Name)
		require.Positive(t, i, f.Name)
		require.Equal(t, f.caption(), got[i+1], f.Name)
	}
	require.Contains(t, got, "17 (<= 10) short")
	require.Contains(t, got, "27 (15..40)")
	require.Contains(t, got, "12345")
	require.Less(t, slices.Index(got, "ratio"), slices.Index(got, "ms"), "ratios come first")
	for _, f := range figures {
		require.Contains(t, got, f.Unit, "each unit has a group")
	}
}

func TestChartScales(t *testing.T) {
	t.Parallel()
	near := chartGroups([]Figure{newFigure("a", 1, "ms", AtMost(4), 1), newFigure("b", 2, "ms", Bound{}, 1), newFigure("c", 0, "ms", Bound{}, 1)})[0]
	require.False(t, near.logarithmic())
	require.InDelta(t, chartBars/4.0, near.length(1), 1e-9, "the bound is the greatest of them")
	require.Zero(t, near.length(0))

	far := chartGroups([]Figure{newFigure("a", 1, "ms", Bound{}, 1), newFigure("b", 10000, "ms", Bound{}, 1), newFigure("c", 100, "ms", Bound{}, 1)})[0]
	require.True(t, far.logarithmic())
	require.InDelta(t, 0.1*chartBars, far.length(1), 1e-9)
	require.InDelta(t, 0.55*chartBars, far.length(100), 1e-9)
	require.InDelta(t, chartBars, far.length(10000), 1e-9)
}

func TestChartOfNothing(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	require.NoError(t, NewReport(io.Discard, io.Discard, false).WriteSVG(&b, "nothing"))
	require.Contains(t, texts(t, b.String()), "nothing")
	require.ErrorIs(t, NewReport(io.Discard, io.Discard, false).WriteSVG(brokenWriter{}, ""), errBroken)
}
