//go:build verify

package console_test

import (
	"bytes"
	"flag"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/sched-sidecar/sched/internal/fleettest"
)

var update = flag.Bool("update", false, "write the screenshots of docs/images")

// samples is how long charts fill before they are looked at, in seconds.
func samples() int {
	if *update {
		return 60 // a picture should show something
	}
	return 8
}

// keep writes a picture, into the docs if it belongs there and is to be updated; with -artifacts somebody can look at all.
func keep(t *testing.T, name string, picture []byte, inDocs bool) {
	t.Helper()
	_, err := png.Decode(bytes.NewReader(picture))
	require.NoError(t, err)
	dir := t.ArtifactDir()
	if *update && inDocs {
		dir = filepath.Join("..", "..", "docs", "images")
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644))
}

// fits holds a page to the width of the screen.
func (p *tab) fits(what string) {
	p.t.Helper()
	require.LessOrEqual(p.t, eval[float64](p, "document.documentElement.scrollWidth - innerWidth"), 0.0, "%s is wider than the screen", what)
}

// A fleet at work, looked at in all the ways there are.
func TestVerifyConsole(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	b := newBrowser(t)
	axe, shutOut := axeSource(t), ""

	overview := b.open(t, desktop())
	overview.visit(f.sidecars[1].URL()) // any sidecar's address leads there, and shows the same fleet
	require.Contains(t, eval[string](overview, "location.href"), "/console/")
	overview.visit(f.console)
	byKeyboard(t, overview)
	overview.visit(f.console)
	overview.await("Number(document.body.dataset.samples || 0) >= 8")
	chartsMove(t, overview)

	for _, each := range f.pages(t) { // while the charts fill
		p := b.open(t, desktop())
		p.visit(f.console + each.path)
		p.fits(each.name)
		shutOut += p.accessible(axe, each.name)
		keep(t, "console-"+each.name, p.shot(false), each.inDocs)
		p.see(night())
		keep(t, "console-"+each.name+"-dark", p.shot(false), false)
		p.see(phone())
		p.fits(each.name)
		keep(t, "console-"+each.name+"-phone", p.shot(false), false)
		p.clean()
		p.close()
	}

	overview.await(fmt.Sprintf("Number(document.body.dataset.samples || 0) >= %d", samples()))
	keep(t, "console-overview", overview.shot(false), true)
	shutOut += overview.accessible(axe, "overview")
	overview.see(night())
	overview.await(`getComputedStyle(document.body).backgroundColor === "rgb(13, 18, 25)"`)
	keep(t, "console-overview-dark", overview.shot(false), true)
	shutOut += overview.accessible(axe, "overview, dark")
	overview.see(phone())
	overview.fits("overview")
	keep(t, "console-overview-phone", overview.shot(false), true)
	overview.clean()
	require.Empty(t, shutOut, "what shuts people out, by axe-core")
	f.comesBack(t, b)
}

// view is a page to look at.
type view struct {
	name, path string
	inDocs     bool // its picture
}

// pages are those beside the overview, some of them about what there is.
func (f *fleet) pages(t *testing.T) []view {
	t.Helper()
	one := func(sql string) (text string) {
		fleettest.Eventually(t, patience, func() bool { return f.db.QueryRow(t.Context(), sql).Scan(&text) == nil }, func() string { return "nothing for " + sql })
		return text
	}
	return []view{
		{"task", "tasks/" + one("SELECT id::text FROM sched.task WHERE status = 'completed' AND attempt > 1 ORDER BY id LIMIT 1"), true},
		{"workers", "workers", true},
		{"queues", "queues", true},
		{"tasks", "tasks", false},
		{"decisions", "decisions", false},
		{"interventions", "interventions", false},
		{"failures", "tasks?status=cancelled", false},
		{"no-tasks", "tasks?kind=nobody-has-it", false},
		{"unroutable", "tasks/" + one("SELECT id::text FROM sched.task WHERE kind = 'train_model' LIMIT 1"), false},
		{"worker", "workers/" + one("SELECT id FROM sched.worker WHERE labels ? 'gpu'"), false},
		{"queue", "queues/payments", false},
	}
}

// byKeyboard gets to the content, and to another page, without a mouse; what has the focus shows it.
func byKeyboard(t *testing.T, p *tab) {
	t.Helper()
	p.press(kb.Tab)
	require.Equal(t, "#main", eval[string](p, `document.activeElement.getAttribute("href")`), "the first stop leads past the navigation")
	p.press(kb.Enter)
	p.await(`location.hash === "#main"`)
	p.visit(p.location())
	for range 30 {
		p.press(kb.Tab)
		require.NotEqual(t, "none", eval[string](p, `getComputedStyle(document.activeElement).outlineStyle`), "the focus is seen")
		if eval[bool](p, `(document.activeElement.getAttribute("href") || "").endsWith("/queues")`) {
			p.press(kb.Enter)
			p.await(`location.pathname.endsWith("/queues")`)
			return
		}
	}
	require.Fail(t, "the keyboard leads to no page of queues")
}

// chartsMove looks at the pixels of the charts, and at the figures beside them.
func chartsMove(t *testing.T, p *tab) {
	t.Helper()
	const painted = `[...document.querySelectorAll("[data-chart] canvas")].map((c) => c.toDataURL().length).join()`
	require.Equal(t, 4, eval[int](p, `document.querySelectorAll("[data-chart] canvas").length`))
	before := eval[string](p, painted)
	seen := eval[int](p, "Number(document.body.dataset.samples)")
	p.await(fmt.Sprintf("Number(document.body.dataset.samples) >= %d", seen+3))
	require.NotEqual(t, before, eval[string](p, painted))
	for _, series := range []string{"enqueued", "ended", "forecast", "running", "slots", "pending", "p50"} {
		text := eval[string](p, fmt.Sprintf(`document.querySelector('[data-series="%s"] b').textContent`, series))
		require.NotEqual(t, "–", text, series)
	}
	require.Equal(t, "live", eval[string](p, `document.getElementById("live-state").textContent`))
}

// When Postgres goes and comes back, pages say so, and go on by themselves.
func (f *fleet) comesBack(t *testing.T, b *browser) {
	t.Helper()
	p := b.open(t, desktop())
	p.visit(f.console)
	p.await("Number(document.body.dataset.samples || 0) >= 3")
	p.clean()
	require.NoError(t, f.server.Kill())
	p.await(`document.getElementById("notice").textContent.includes("Postgres does not answer")`)
	keep(t, "away", p.shot(false), false)
	gone := b.open(t, desktop())
	gone.visit(f.console + "queues")
	require.Contains(t, eval[string](gone, `document.querySelector("main").innerText`), "Postgres does not answer")
	keep(t, "away-page", gone.shot(false), false)
	require.NoError(t, f.server.Restart(t.Context()))
	p.await(`document.getElementById("notice").textContent === ""`)
	gone.await(`document.querySelector("main h1").innerText === "Queues"`)
}

// axeSource is the script that looks for what shuts people out, from npm.
func axeSource(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Log("there is no npm on this machine: accessibility is not checked with axe-core")
		return ""
	}
	dir := t.TempDir()
	install := exec.CommandContext(t.Context(), "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir, "axe-core@4.14.1")
	install.WaitDelay = time.Second
	if output, err := install.CombinedOutput(); err != nil {
		t.Logf("axe-core is not to be had: accessibility is not checked with it: %s", output)
		return ""
	}
	source, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	require.NoError(t, err)
	return string(source)
}

// accessible returns what axe-core finds in a page; nothing without axe-core.
func (p *tab) accessible(axe, what string) string {
	p.t.Helper()
	if axe == "" {
		return ""
	}
	eval[bool](p, axe+"; true")
	found := eval[string](p, `axe.run(document, {resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]})
		.then((r) => r.violations.map((v) => v.id + ": " + v.help + "\n  " + v.nodes.map((n) => n.html.slice(0, 200) + " " + n.failureSummary).slice(0, 3).join("\n  ")).join("\n"))`)
	if found != "" {
		return what + ": " + found + "\n"
	}
	return ""
}
