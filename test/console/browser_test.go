//go:build verify

package console_test

import (
	"context"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience is how long a page may take, on a busy machine.
const patience = 3 * time.Minute

// browser is a headless Chromium with a profile of its own.
type browser struct {
	ctx context.Context
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("there is no Chromium on this machine (Debian: apt-get install chromium)")
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("no-proxy-server", true), chromedp.Flag("hide-scrollbars", true),
	)
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancelBrowser := chromedp.NewContext(allocator)
	t.Cleanup(cancelBrowser)
	require.NoError(t, chromedp.Do(ctx), "starting Chromium")
	return &browser{ctx}
}

// look is how a page is looked at.
type look struct {
	width, height int64
	dark          bool
}

// The looks that pages are held to.
func desktop() look { return look{width: 1280, height: 900} }
func night() look   { return look{width: 1280, height: 900, dark: true} }
func phone() look   { return look{width: 390, height: 844} }

// tab is a page that is looked at, and what it complained of on its console.
type tab struct {
	t     *testing.T
	ctx   context.Context
	close func()

	mu       sync.Mutex
	problems []string
}

// open opens a tab.
func (b *browser) open(t *testing.T, l look) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	p := &tab{t: t, ctx: ctx, close: cancel}
	messages := chromedp.Console(ctx)
	var listening sync.WaitGroup
	listening.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if slices.Contains([]chromedp.ConsoleType{chromedp.ConsoleWarning, chromedp.ConsoleError, chromedp.ConsoleException}, m.Type) {
				p.mu.Lock()
				p.problems = append(p.problems, m.String()+" "+m.URL)
				p.mu.Unlock()
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		listening.Wait()
	})
	p.see(l)
	return p
}

// clean holds the page to having complained of nothing.
func (p *tab) clean() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(p.t, p.problems, "the page's console")
}

// run runs an action in a page, in time.
func run[T any](p *tab, action chromedp.Action[T]) T {
	p.t.Helper()
	_, err := chromedp.Run(p.ctx, chromedp.Func(func(context.Context, *chromedp.Target) error { return nil }))
	require.NoError(p.t, err) // the first one makes the tab, and must not end it with its deadline
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	require.NoError(p.t, err)
	return value
}

func (p *tab) see(l look) {
	p.t.Helper()
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	run(p, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: l.width, Height: l.height, DeviceScaleFactor: 1, Mobile: l.width < 500,
		})
		if err != nil {
			return err
		}
		_, err = cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

func (p *tab) visit(url string) {
	p.t.Helper()
	run(p, chromedp.Navigate(url))
	run(p, chromedp.WaitVisible(chromedp.CSS("main h1")))
}

// press presses a key.
func (p *tab) press(key string) {
	p.t.Helper()
	run(p, chromedp.KeyEvent(key))
}

// location is where the page is, without what is behind #.
func (p *tab) location() string {
	p.t.Helper()
	return eval[string](p, `location.href.split("#")[0]`)
}

// eval evaluates an expression in a page.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	return run(p, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// await waits until an expression is true in a page.
func (p *tab) await(expression string) {
	p.t.Helper()
	run(p, chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingInterval(100*time.Millisecond), chromedp.WithPollingTimeout(patience)))
}

// shot takes a picture of what is on the screen, or of the whole page.
func (p *tab) shot(whole bool) []byte {
	p.t.Helper()
	return run(p, func(ctx context.Context, t *chromedp.Target) ([]byte, error) {
		taken, err := cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{
			Format: page.CaptureScreenshotFormatPng, CaptureBeyondViewport: &whole,
		})
		return taken.Data, err
	})
}
