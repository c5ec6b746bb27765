package svg_test

import (
	"encoding/xml"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/svg"
)

func TestDrawing(t *testing.T) {
	t.Parallel()
	d := svg.New(100, 50, `a < b & "c"`)
	d.Text(1, 2.26, svg.Styles(svg.Bold, svg.End), "x > \x00 y")
	d.Text(1, 2, svg.Plain, "plain")
	d.Grid(0, 1, 2, 3)
	d.Mark(0, math.NaN(), math.Inf(1), 3)
	d.Bar(1, 2, -3, 4, svg.Red)
	d.Curve(svg.Blue, svg.Point{X: 1, Y: 2}, svg.Point{X: 3.14, Y: 4})

	var b strings.Builder
	n, err := d.WriteTo(&b)
	require.NoError(t, err)
	require.EqualValues(t, b.Len(), n)
	var got struct {
		Width string `xml:"width,attr"`
		Title string `xml:"title"`
		Style string `xml:"style"`
		Texts []struct {
			Class string `xml:"class,attr"`
			Y     string `xml:"y,attr"`
			Text  string `xml:",chardata"`
		} `xml:"text"`
		Rects []struct {
			Class string `xml:"class,attr"`
			Width string `xml:"width,attr"`
		} `xml:"rect"`
		Paths []struct {
			Class string `xml:"class,attr"`
			D     string `xml:"d,attr"`
		} `xml:"path"`
		Curve struct {
			Points string `xml:"points,attr"`
		} `xml:"polyline"`
	}
	require.NoError(t, xml.Unmarshal([]byte(b.String()), &got))
	require.Equal(t, "100", got.Width)
	require.Equal(t, `a < b & "c"`, got.Title)
	require.Contains(t, got.Style, "prefers-color-scheme: dark")
	require.Len(t, got.Texts, 2)
	require.Equal(t, "bold end", got.Texts[0].Class)
	require.Equal(t, "2.3", got.Texts[0].Y)
	require.Equal(t, "x > \uFFFD y", got.Texts[0].Text)
	require.Equal(t, "bar red", got.Rects[1].Class)
	require.Equal(t, "0", got.Rects[1].Width, "no rectangle goes backwards")
	require.Equal(t, "M0 1L2 3", got.Paths[0].D)
	require.Equal(t, "M0 0L0 3", got.Paths[1].D)
	require.Equal(t, "1,2 3.1,4", got.Curve.Points)
}

// What a drawing refers to is in it, and it has both schemes of each colour.
func TestDrawingIsWhole(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	_, err := svg.New(1, 1, "").WriteTo(&b)
	require.NoError(t, err)
	require.NotContains(t, b.String(), "url(")
	require.NotContains(t, b.String(), "@import")
	light, dark, _ := strings.Cut(b.String(), "@media")
	for _, color := range []svg.Color{svg.Blue, svg.Orange, svg.Green, svg.Gray, svg.Red} {
		require.Contains(t, light, "."+string(color)+" {")
		require.Contains(t, dark, "."+string(color)+" {")
	}
}
