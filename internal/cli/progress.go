package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	progressEvery = 100 * time.Millisecond
	progressBar   = 24
)

// progress shows on one line of a terminal how far a long command is. On anything
// else it shows nothing.
type progress struct {
	w     io.Writer
	live  bool
	verb  string // enqueued
	total int64  // of the measure that set gets; 0: unknown
	now   func() time.Time

	began, drawn time.Time
	width        int // of what stands on the line
}

func newProgress(s *screen, verb string, total int64) *progress {
	return &progress{w: s.err, live: s.live, verb: verb, total: total, now: time.Now, began: time.Now()}
}

// set shows how many tasks are done, and how much of the total that is.
func (p *progress) set(tasks, measure int64) {
	now := p.now()
	if !p.live || now.Sub(p.drawn) < progressEvery {
		return
	}
	p.drawn = now
	text := p.text(tasks, measure, now.Sub(p.began))
	pad := strings.Repeat(" ", max(0, p.width-len(text)))
	fmt.Fprintf(p.w, "\r%s%s", text, pad)
	p.width = len(text)
}

func (p *progress) text(tasks, measure int64, took time.Duration) string {
	text := p.verb + " " + plural(tasks, "task")
	if p.total > 0 {
		share := min(float64(measure)/float64(p.total), 1)
		full := int(share * progressBar)
		text += fmt.Sprintf("  [%s%s] %3.0f %%", strings.Repeat("#", full), strings.Repeat("-", progressBar-full), share*100)
		if share > 0 && share < 1 && took > time.Second {
			text += "  " + span(time.Duration(float64(took)*(1-share)/share)) + " left"
		}
	}
	if took > time.Second {
		text += "  " + number(int64(float64(tasks)/took.Seconds())) + "/s"
	}

	return text
}

// end takes the line away.
func (p *progress) end() {
	if p.width > 0 {
		fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", p.width))
		p.width = 0
	}
}
