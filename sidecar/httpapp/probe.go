package httpapp

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// Probe reports whether the app is there: it connects, and when a health path
// is configured also waits for an HTTP answer, of whatever status. It returns
// nil or why the app counts as down, within the health timeout.
func (d *Dispatcher) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.healthTimeout)
	defer cancel()
	if d.healthPath == "" {
		conn, err := d.dial(ctx)
		if err != nil {
			return fmt.Errorf("the app at %s accepts no connection: %w", d.target.display, err)
		}
		// Nothing was sent that closing could lose.
		_ = conn.Close()
		return nil
	}
	// New has checked that the path parses.
	path, err := url.Parse(d.healthPath)
	if err != nil {
		return fmt.Errorf("the health path: %w", err)
	}
	u := (&url.URL{Scheme: d.target.scheme, Host: d.target.host}).ResolveReference(path)
	r := &request{method: http.MethodGet, path: u.RequestURI(), last: true}
	r.set(headerUserAgent, d.userAgent)
	response, err := d.probes.send(ctx, r)
	if err != nil {
		return fmt.Errorf("the app at %s does not answer GET %s: %w", d.target.display, d.healthPath, err)
	}
	_ = response.Body.Close()
	return nil
}
