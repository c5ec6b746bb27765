package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// color is the number of a terminal's colour; empty is none.
type color string

const (
	red    color = "31"
	green  color = "32"
	yellow color = "33"
	cyan   color = "36"
	grey   color = "90"
)

func (c color) paint(text string) string {
	if c == "" {
		return text
	}

	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// column is one of a table.
type column struct {
	title string
	right bool // numbers
	// flexible text is cut when the table is wider than the terminal; the others
	// are what one looks for.
	flexible bool
	optional bool // left out when all its cells are empty
	spare    bool // left out when the table would not fit, the last one first
}

const (
	columnGap     = 2
	leastFlexible = 8
)

// table lays out rows for people. Cells may hold anything: they are cleaned.
type table struct {
	columns []column
	rows    [][]string
	colors  []map[int]color // by row and column
}

// add appends a row; colors are by column and may be nil.
func (t *table) add(colors map[int]color, cells ...string) {
	for i := range cells {
		cells[i] = clean(cells[i])
	}
	t.rows = append(t.rows, cells)
	t.colors = append(t.colors, colors)
}

// write prints the table, no wider than width unless that is 0 or too narrow for
// what can't be cut.
func (t *table) write(w io.Writer, width int, colored bool) error {
	shown, widths := t.layout(width)
	titles := make([]string, len(t.columns))
	for i, c := range t.columns {
		titles[i] = c.title
	}
	var b strings.Builder
	t.line(&b, shown, widths, titles, nil)
	for i, row := range t.rows {
		colors := t.colors[i]
		if !colored {
			colors = nil
		}
		t.line(&b, shown, widths, row, colors)
	}
	_, err := io.WriteString(w, b.String())

	return err
}

// layout picks the columns to show, and how wide each of all is.
func (t *table) layout(width int) (shown, widths []int) {
	natural := make([]int, len(t.columns))
	for i, c := range t.columns {
		empty := true
		natural[i] = utf8.RuneCountInString(c.title)
		for _, row := range t.rows {
			natural[i] = max(natural[i], utf8.RuneCountInString(row[i]))
			empty = empty && row[i] == ""
		}
		if !c.optional || !empty {
			shown = append(shown, i)
		}
	}
	for {
		widths, fits := t.fit(shown, natural, width)
		spare := len(shown) - 1
		for spare >= 0 && !t.columns[shown[spare]].spare {
			spare--
		}
		if fits || spare < 0 {
			return shown, widths
		}
		shown = slices.Delete(shown, spare, spare+1)
	}
}

// fit cuts the widest flexible columns until the shown ones fit, if they can.
func (t *table) fit(shown, natural []int, width int) (widths []int, fits bool) {
	widths = slices.Clone(natural)
	total := columnGap * (len(shown) - 1)
	for _, i := range shown {
		total += widths[i]
	}
	for ; width > 0 && total > width; total-- {
		widest := -1
		for _, i := range shown {
			if t.columns[i].flexible && widths[i] > leastFlexible && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return widths, false
		}
		widths[widest]--
	}

	return widths, true
}

func (t *table) line(out *strings.Builder, shown, widths []int, cells []string, colors map[int]color) {
	var b strings.Builder
	for n, i := range shown {
		cell := cut(cells[i], widths[i])
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		if n > 0 {
			b.WriteString(strings.Repeat(" ", columnGap))
		}
		if t.columns[i].right {
			b.WriteString(pad + colors[i].paint(cell))
		} else {
			b.WriteString(colors[i].paint(cell) + pad)
		}
	}
	out.WriteString(strings.TrimRight(b.String(), " ") + "\n")
}

// cut shortens text to a width, and shows that it did.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	if width < 1 {
		return ""
	}
	runes := []rune(text)

	return string(runes[:width-1]) + "…"
}

// clean makes text one line that can't steer the terminal: an error or a label
// may hold anything.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', r == '\r':
			return ' '
		case r < ' ', r >= 0x7f && r < 0xa0, r == utf8.RuneError:
			return '\ufffd'
		// Marks that turn the direction of what follows around.
		case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return '\ufffd'
		default:
			return r
		}
	}, text)
}

// facts prints names and values below each other.
type facts struct {
	names, values []string
}

// add appends a fact, unless it has no value.
func (f *facts) add(name, value string) {
	if value != "" {
		f.names, f.values = append(f.names, name), append(f.values, value)
	}
}

func (f *facts) addf(name, format string, args ...any) { f.add(name, fmt.Sprintf(format, args...)) }

func (f *facts) write(w io.Writer) error {
	width := 0
	for _, name := range f.names {
		width = max(width, utf8.RuneCountInString(name))
	}
	indent := "\n" + strings.Repeat(" ", width+columnGap)
	var b strings.Builder
	for i, name := range f.names {
		lines := strings.Split(f.values[i], "\n")
		for j := range lines {
			lines[j] = strings.TrimRight(clean(lines[j]), " ")
		}
		fmt.Fprintf(&b, "%-*s  %s\n", width, name, strings.Join(lines, indent))
	}
	_, err := io.WriteString(w, b.String())

	return err
}
