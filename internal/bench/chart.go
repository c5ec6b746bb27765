package bench

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/sched-sidecar/sched/internal/svg"
)

// A chart's measures, in pixels.
const (
	chartWidth = 960
	chartNames = 330 // names end here, bars begin
	chartBars  = 330 // longest bar
	chartRow   = 20
	chartBar   = 12
	chartHead  = 30 // of a group
	chartTop   = 76
	chartSmall = 50 // a group whose values differ by more has a logarithmic scale
)

// chartGroup is the figures of one unit, which have a scale of their own.
type chartGroup struct {
	unit        string
	figures     []Figure
	least, most float64 // above 0: of values and bounds
}

// WriteSVG draws the figures as bars, by unit, each with its bound.
func (r *Report) WriteSVG(w io.Writer, title string) error {
	groups := chartGroups(r.figures)
	height := chartTop
	for _, g := range groups {
		height += chartHead + chartRow*len(g.figures)
	}
	d := svg.New(chartWidth, height+10, title)
	d.Text(20, 24, svg.Title, title)
	d.Text(20, 42, svg.Quiet, r.machine)
	drawLegend(d)
	y := float64(chartTop)
	for _, g := range groups {
		g.draw(d, y)
		y += float64(chartHead + chartRow*len(g.figures))
	}
	if _, err := d.WriteTo(w); err != nil {
		return fmt.Errorf("writing the chart: %w", err)
	}
	return nil
}

func drawLegend(d *svg.Drawing) {
	const y = 62
	x := 20.0
	for _, entry := range []struct {
		color svg.Color
		text  string
	}{{svg.Blue, "holds its bound"}, {svg.Red, "fell short"}, {svg.Gray, "reported, no bound"}} {
		d.Bar(x, y-9, 10, 10, entry.color)
		d.Text(x+16, y, svg.Plain, entry.text)
		x += 150
	}
	d.Mark(x+4, y-11, x+4, y+3)
	d.Text(x+16, y, svg.Plain, "bound")
}

// chartGroups are the figures by unit, ratios first, otherwise as they came.
func chartGroups(figures []Figure) []*chartGroup {
	ratios := &chartGroup{unit: "ratio"}
	groups, byUnit := []*chartGroup{ratios}, map[string]*chartGroup{"ratio": ratios}
	for _, f := range figures {
		g := byUnit[f.Unit]
		if g == nil {
			g = &chartGroup{unit: f.Unit}
			groups, byUnit[f.Unit] = append(groups, g), g
		}
		g.figures = append(g.figures, f)
		for _, v := range append(f.Bound.limits(), f.Value) {
			if !(v > 0) || math.IsInf(v, 0) {
				continue
			}
			g.most = max(g.most, v)
			if g.least == 0 || v < g.least {
				g.least = v
			}
		}
	}
	if len(ratios.figures) == 0 {
		groups = groups[1:]
	}
	return groups
}

func (g *chartGroup) logarithmic() bool { return g.most > chartSmall*g.least }

// length is that of a bar; on a logarithmic scale the least value has a tenth of
// the longest.
func (g *chartGroup) length(value float64) float64 {
	switch {
	case !(value > 0) || g.most == 0:
		return 0
	case math.IsInf(value, 0):
		return chartBars
	case g.logarithmic():
		return chartBars * (0.1 + 0.9*math.Log(value/g.least)/math.Log(g.most/g.least))
	}
	return chartBars * value / g.most
}

func (g *chartGroup) draw(d *svg.Drawing, top float64) {
	head := g.unit
	if g.logarithmic() {
		head += " (logarithmic)"
	}
	d.Text(chartNames, top+20, svg.Bold, head)
	bottom := top + chartHead + float64(chartRow*len(g.figures))
	d.Grid(chartNames, top+chartHead-4, chartNames, bottom-4)
	for i, f := range g.figures {
		y := top + chartHead + float64(chartRow*i)
		d.Text(chartNames-8, y+10, svg.End, f.Name)
		d.Bar(chartNames, y, g.length(f.Value), chartBar, f.color())
		reach := g.length(f.Value)
		for _, limit := range f.Bound.limits() {
			x := g.length(limit)
			d.Mark(chartNames+x, y-3, chartNames+x, y+chartBar+3)
			reach = max(reach, x)
		}
		d.Text(chartNames+reach+8, y+10, svg.Plain, f.caption())
	}
}

func (f Figure) color() svg.Color {
	switch {
	case !f.OK:
		return svg.Red
	case f.Bound == Bound{}:
		return svg.Gray
	}
	return svg.Blue
}

// caption says in words what the bar shows.
func (f Figure) caption() string {
	parts := []string{number(f.Value)}
	if f.Bound != (Bound{}) {
		parts = append(parts, "("+f.Bound.String()+")")
	}
	if !f.OK {
		parts = append(parts, "short")
	}
	return strings.Join(parts, " ")
}

// limits are the numbers of a bound.
func (b Bound) limits() []float64 {
	switch b.comparison {
	case atMost, atLeast:
		return []float64{b.limit}
	case within:
		return []float64{b.limit, b.most}
	case reported:
	}
	return nil
}
