package simulate

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
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

func color(p Policy) string {
	switch p {
	case Elastic:
		return "#1f77b4"
	case Reactive:
		return "#ff7f0e"
	case FixedMin:
		return "#7f7f7f"
	case FixedMax:
		return "#2ca02c"
	}
	return "#000"
}

// WriteSVG draws demand, slots, backlog and waits of all policies over time.
func WriteSVG(w io.Writer, title string, results []Result) error {
	var b strings.Builder
	all := panels()
	height := svgTop + len(all)*(svgPanel+svgGap) + 10
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12">`+"\n", svgWidth, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/><text x="%d" y="20" font-size="15">%s</text>`+"\n", svgLeft, escape(title))
	for i, r := range results {
		x := svgLeft + i*130
		fmt.Fprintf(&b, `<path d="M%d 38h24" stroke="%s" stroke-width="2"/><text x="%d" y="42">%s</text>`+"\n", x, color(r.Policy), x+30, escape(string(r.Policy)))
	}
	for i, p := range all {
		p.draw(&b, svgTop+i*(svgPanel+svgGap), results)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (p panel) draw(b *strings.Builder, top int, results []Result) {
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
	plotTop, plotHeight, plotWidth := top+svgTitle, svgPanel-svgTitle, svgWidth-svgLeft-svgRight
	fmt.Fprintf(b, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", svgLeft, top+14, escape(p.title))
	for i := range 3 {
		part := float64(i) / 2
		y := float64(plotTop) + float64(plotHeight)*(1-part)
		fmt.Fprintf(b, `<path d="M%d %.1fh%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			svgLeft, y, plotWidth, svgLeft-6, y+4, escape(p.show(most*part)))
	}
	for i := range 5 {
		x := svgLeft + plotWidth*i/4
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle" fill="#555">%s</text>`+"\n", x, plotTop+plotHeight+14, time.Duration(length*i/4)*time.Second)
	}
	drawn := results
	if strings.HasPrefix(p.title, "demand") {
		drawn = results[:min(1, len(results))] // the same for all
	}
	for _, r := range drawn {
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="`, color(r.Policy))
		for _, point := range r.Points {
			fmt.Fprintf(b, "%.1f,%.1f ", float64(svgLeft)+float64(plotWidth)*float64(point.Second)/float64(length),
				float64(plotTop)+float64(plotHeight)*(1-p.value(point)/most))
		}
		b.WriteString(`"/>` + "\n")
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

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}
