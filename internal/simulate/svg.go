package simulate

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/sched-sidecar/sched/internal/svg"
)

const (
	svgWidth, svgPanel       = 960, 170
	svgLeft, svgRight        = 90, 20
	svgTop, svgGap, svgTitle = 60, 40, 24
)

// panel is one quantity over time.
type panel struct {
	title string
	value func(Point) float64
	show  func(float64) string
	log   bool
}

func panels() []panel {
	return []panel{
		{"demand: slots that arrivals take", func(p Point) float64 { return p.Demand }, number, false},
		{"slots", func(p Point) float64 { return p.Slots }, number, false},
		{"backlog: tasks that wait", func(p Point) float64 { return p.Backlog }, number, false},
		{"wait of 99 of 100 tasks (logarithmic)", func(p Point) float64 { return math.Log10(1 + p.WaitP99.Seconds()*1000) }, func(v float64) string {
			return time.Duration((math.Pow(10, v) - 1) * float64(time.Millisecond)).Round(time.Millisecond).String()
		}, true},
	}
}

func color(p Policy) svg.Color {
	switch p {
	case Elastic:
		return svg.Blue
	case Reactive:
		return svg.Orange
	case FixedMin:
		return svg.Gray
	case FixedMax:
		return svg.Green
	}
	return svg.Red
}

// WriteSVG draws demand, slots, backlog and waits of all policies over time.
func WriteSVG(w io.Writer, title string, results []Result) error {
	all := panels()
	d := svg.New(svgWidth, svgTop+len(all)*(svgPanel+svgGap)+10, title)
	d.Text(svgLeft, 20, svg.Title, title)
	for i, r := range results {
		x := float64(svgLeft + i*130)
		d.Curve(color(r.Policy), svg.Point{X: x, Y: 38}, svg.Point{X: x + 24, Y: 38})
		d.Text(x+30, 42, svg.Plain, string(r.Policy))
	}
	for i, p := range all {
		p.draw(d, float64(svgTop+i*(svgPanel+svgGap)), results)
	}
	_, err := d.WriteTo(w)
	return err
}

func (p panel) draw(d *svg.Drawing, top float64, results []Result) {
	most, length := 0.0, 1
	for _, r := range results {
		for _, point := range r.Points {
			most = max(most, p.value(point))
			length = max(length, point.Second)
		}
	}
	if most == 0 {
		most = 1
	}
	const height, width = float64(svgPanel - svgTitle), float64(svgWidth - svgLeft - svgRight)
	plotTop := top + svgTitle
	d.Text(svgLeft, top+14, svg.Bold, p.title)
	for i := range 3 {
		part := float64(i) / 2
		y := plotTop + height*(1-part)
		d.Grid(svgLeft, y, svgLeft+width, y)
		d.Text(svgLeft-6, y+4, svg.End, p.show(most*part))
	}
	for i := range 5 {
		d.Text(svgLeft+width*float64(i)/4, plotTop+height+14, svg.Styles(svg.Middle, svg.Quiet), (time.Duration(length*i/4) * time.Second).String())
	}
	drawn := results
	if strings.HasPrefix(p.title, "demand") {
		drawn = results[:min(1, len(results))] // the same for all
	}
	for _, r := range drawn {
		points := make([]svg.Point, len(r.Points))
		for i, point := range r.Points {
			points[i] = svg.Point{X: svgLeft + width*float64(point.Second)/float64(length), Y: plotTop + height*(1-p.value(point)/most)}
		}
		d.Curve(color(r.Policy), points...)
	}
}

func number(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.3gM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.3gk", v/1e3)
	}
	return fmt.Sprintf("%.4g", v)
}
