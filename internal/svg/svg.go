package svg

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Color is one of those that the style sheet has for both schemes.
type Color string

// The colours of curves and bars; each differs from the others in brightness, too.
const (
	Blue   Color = "blue"
	Orange Color = "orange"
	Green  Color = "green"
	Gray   Color = "gray"
	Red    Color = "red"
)

// Style is how a text looks; several are joined with [Styles].
type Style string

// The styles of texts.
const (
	Plain  Style = ""
	Title  Style = "title"
	Bold   Style = "bold"
	Quiet  Style = "quiet"
	Middle Style = "middle" // x is its middle
	End    Style = "end"    // x is its end
)

// Styles joins some.
func Styles(styles ...Style) Style {
	words := make([]string, len(styles))
	for i, s := range styles {
		words[i] = string(s)
	}
	return Style(strings.Join(words, " "))
}

const styleSheet = `
svg { color-scheme: light dark; font: 12px system-ui, sans-serif; }
text { fill: #1b1f24; user-select: text; }
.title { font-size: 15px; } .bold { font-weight: bold; } .middle { text-anchor: middle; } .end { text-anchor: end; }
.paper { fill: #fff; } .quiet { fill: #57606a; } .grid { stroke: #d8dee4; } .mark { stroke: #1b1f24; stroke-width: 2; }
.blue { color: #1f77b4; } .orange { color: #d9690f; } .green { color: #2ca02c; } .gray { color: #8c959f; } .red { color: #b3261e; }
.curve { fill: none; stroke: currentColor; stroke-width: 1.5; } .bar { fill: currentColor; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.paper { fill: #0d1117; } .quiet { fill: #9aa4af; } .grid { stroke: #30363d; } .mark { stroke: #e6edf3; }
.blue { color: #58a6ff; } .orange { color: #f0883e; } .green { color: #56d364; } .gray { color: #6e7681; } .red { color: #ff7b72; }
}
`

// Drawing is a picture in the making.
type Drawing struct{ text strings.Builder }

// New begins a drawing of a size in pixels. The title is what a screen reader says
// of it; whoever wants to see it draws it.
func New(width, height int, title string) *Drawing {
	d := &Drawing{}
	fmt.Fprintf(&d.text, `<svg xmlns="http://www.w3.org/2000/svg" role="img" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d">`+"\n", width, height)
	fmt.Fprintf(&d.text, "<title>%s</title>\n<style>%s</style>\n", escape(title), styleSheet)
	d.text.WriteString(`<rect class="paper" width="100%" height="100%"/>` + "\n")
	return d
}

// Text writes a line whose baseline is at y.
func (d *Drawing) Text(x, y float64, style Style, text string) {
	class := ""
	if style != Plain {
		class = ` class="` + escape(string(style)) + `"`
	}
	fmt.Fprintf(&d.text, `<text x="%s" y="%s"%s>%s</text>`+"\n", place(x), place(y), class, escape(text))
}

// Grid draws a line that other things are seen against.
func (d *Drawing) Grid(x1, y1, x2, y2 float64) { d.line("grid", x1, y1, x2, y2) }

// Mark draws a line that stands out.
func (d *Drawing) Mark(x1, y1, x2, y2 float64) { d.line("mark", x1, y1, x2, y2) }

func (d *Drawing) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&d.text, `<path class="%s" d="M%s %sL%s %s"/>`+"\n", class, place(x1), place(y1), place(x2), place(y2))
}

// Bar fills a rectangle; a negative width or height is 0.
func (d *Drawing) Bar(x, y, width, height float64, color Color) {
	fmt.Fprintf(&d.text, `<rect class="bar %s" x="%s" y="%s" width="%s" height="%s"/>`+"\n",
		escape(string(color)), place(x), place(y), place(max(width, 0)), place(max(height, 0)))
}

// Point is a place in a drawing, from its left upper corner.
type Point struct{ X, Y float64 }

// Curve joins points.
func (d *Drawing) Curve(color Color, points ...Point) {
	fmt.Fprintf(&d.text, `<polyline class="curve %s" points="`, escape(string(color)))
	for i, p := range points {
		if i > 0 {
			d.text.WriteByte(' ')
		}
		d.text.WriteString(place(p.X) + "," + place(p.Y))
	}
	d.text.WriteString(`"/>` + "\n")
}

// WriteTo writes the drawing as it is now, whole.
func (d *Drawing) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, d.text.String()+"</svg>\n")
	return int64(n), err
}

func place(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		v = 0
	}
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

// escape also replaces what XML can't hold.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a builder takes everything
	return b.String()
}
