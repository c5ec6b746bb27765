package httpapp

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
)

// http2 speaks HTTP/2 to an app that is said to speak it, and nothing else: there is no
// asking first without TLS. A connection carries as many requests as the app allows.
type http2 struct {
	*http.Transport
	target target
}

// newHTTP2 leaves out what net/http does by default: proxies of the environment, and
// unpacking, which would hide a response's real size.
func newHTTP2(target target, dial func(context.Context) (net.Conn, error), config Config) *http2 {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http2{target: target, Transport: &http.Transport{
		Protocols: protocols,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dial(ctx)
		},
		DisableCompression:     true,
		DisableKeepAlives:      config.MaxIdleConns == 0,
		MaxResponseHeaderBytes: headerBytes,
		MaxIdleConnsPerHost:    config.MaxIdleConns,
		IdleConnTimeout:        config.IdleConnTimeout,
	}}
}

func (t *http2) send(ctx context.Context, r *request) (*http.Response, error) {
	u, err := url.ParseRequestURI(r.path)
	if err != nil {
		return nil, err
	}
	u.Scheme, u.Host = t.target.scheme, t.target.host
	outgoing := &http.Request{
		Method:     r.method,
		URL:        u,
		Host:       u.Host,
		Header:     make(http.Header, len(r.fields)),
		Proto:      "HTTP/2.0",
		ProtoMajor: 2, //nolint:mnd // HTTP/2
		Close:      r.last,
	}
	for _, f := range r.fields {
		outgoing.Header[f.name] = []string{f.value}
	}
	if len(r.body) > 0 {
		outgoing.ContentLength = int64(len(r.body))
		outgoing.Body = io.NopCloser(bytes.NewReader(r.body))
		// GetBody lets net/http start over when the app has seen nothing of it. With one
		// of these headers it would also re-send what the app may have begun.
		if !r.has("Idempotency-Key") && !r.has("X-Idempotency-Key") {
			outgoing.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(r.body)), nil }
		}
	}
	return t.RoundTrip(outgoing.WithContext(ctx))
}
