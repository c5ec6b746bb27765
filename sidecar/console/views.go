package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"net/http"
	"time"
)

//go:embed templates
var templateFiles embed.FS

// views are the pages' templates, each with the frame around it.
type views struct {
	pages map[string]*template.Template
	parts *template.Template
}

func loadViews(assets *assets) (*views, error) {
	parts, err := template.New("").Funcs(functions(assets)).ParseFS(templateFiles, "templates/frame.gohtml", "templates/parts.gohtml", "templates/live.gohtml")
	if err != nil {
		return nil, err
	}
	v := &views{pages: map[string]*template.Template{}, parts: parts}
	for _, name := range []string{
		"overview", "workers", "worker", "queues", "queue", "tasks", "task", "decisions", "interventions", "login", "message",
	} {
		whole, err := parts.Clone()
		if err != nil {
			return nil, err
		}
		if v.pages[name], err = whole.ParseFS(templateFiles, "templates/"+name+".gohtml"); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// live renders the part of a page that follows.
func (v *views) live(w io.Writer, of topic, body any) error {
	return v.parts.ExecuteTemplate(w, "live-"+string(of), body)
}

// page is what the frame shows.
type page struct {
	Title   string
	Section string // of the navigation
	Bare    bool   // without navigation
	// Live is the page's topic, if its tables follow.
	Live topic
	// Refresh is after how many seconds the page should be asked for again; 0: never.
	Refresh int
	Body    any

	// Filled in by render.
	RiverUIURL, Version, Host string
	LoggedIn                  bool
}

// render writes a page whole, or an error.
func (c *Console) render(w http.ResponseWriter, r *http.Request, status int, view string, p page) {
	p.RiverUIURL, p.Version, p.Host = c.config.RiverUIURL, c.config.Version, c.config.Host
	p.LoggedIn = c.access.token != "" && !p.Bare
	var out bytes.Buffer
	if err := c.views.pages[view].ExecuteTemplate(&out, "frame", p); err != nil {
		c.config.Logger.ErrorContext(r.Context(), "the console could not render a page", slog.String("page", view), slog.Any("error", err))
		http.Error(w, "This page could not be rendered; the sidecar's log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = out.WriteTo(w) // the client may be gone
}

// messageBody is a page that says one thing.
type messageBody struct {
	What, Advice string
	Back, BackTo string // a link's address and text
	Away         bool
}

// sorry shows why a page can't be shown.
func (c *Console) sorry(w http.ResponseWriter, r *http.Request, section string, t *trouble) {
	p := page{Title: t.What, Section: section, Body: messageBody{What: t.What, Advice: t.Advice, Away: t.Away}}
	if t.Away {
		p.Refresh = 3
		w.Header().Set("Retry-After", "3")
	}
	c.render(w, r, t.status, "message", p)
}

func (c *Console) missing(w http.ResponseWriter, r *http.Request, section, what, advice, back, backTo string) {
	c.render(w, r, http.StatusNotFound, "message", page{
		Title: what, Section: section, Body: messageBody{What: what, Advice: advice, Back: back, BackTo: backTo},
	})
}

func (c *Console) notFound(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the console only reads", http.StatusMethodNotAllowed)
		return
	}
	c.missing(w, r, "", "No such page", "Nothing of the console is at this address.", Path+"/", "Overview")
}

func functions(assets *assets) template.FuncMap {
	return template.FuncMap{
		"asset": assets.url, "at": formatTime, "ago": ago, "seconds": formatSeconds, "thousands": thousands, "percent": percent,
		"bar": newBar, "json": prettyJSON, "number": formatNumber, "took": took, "link": link, "list": list, "dict": dict,
		"pressure": pressureMood, "status": statusMood, "short": short, "changes": changesOf, "path": func() string { return Path },
		"decided": decisionMood, "int": func(n int32) int { return int(n) },
	}
}

// dict makes a map of what a part of a page needs.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("dict: %d arguments don't make pairs", len(pairs))
	}
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		key, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %v is no key", pairs[i])
		}
		m[key] = pairs[i+1]
	}
	return m, nil
}

func list(items ...any) []any { return items }

// took is the time between two times.
func took(from time.Time, to *time.Time) string {
	if to == nil {
		return ""
	}
	return formatSeconds(to.Sub(from).Seconds())
}
