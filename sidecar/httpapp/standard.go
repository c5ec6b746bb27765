package httpapp

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
)

// standard speaks through net/http: HTTP/2, to an app that is said to speak it and is
// spoken to in nothing else, since there is no asking first without TLS; and HTTP/1.1
// over TLS.
type standard struct {
	*http.Transport
	target target
}

// newStandard leaves out what net/http does by default: proxies of the environment,
// HTTP/2 by agreement, and unpacking, which would hide a response's real size.
func newStandard(target target, dial func(context.Context) (net.Conn, error), config Config) *standard {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!target.h2c)
	protocols.SetUnencryptedHTTP2(target.h2c)
	transport := &http.Transport{
		Protocols: protocols,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dial(ctx)
		},
		TLSHandshakeTimeout:    config.DialTimeout,
		DisableCompression:     true,
		DisableKeepAlives:      config.MaxIdleConns == 0,
		MaxResponseHeaderBytes: headerBytes,
		MaxIdleConnsPerHost:    config.MaxIdleConns,
		IdleConnTimeout:        config.IdleConnTimeout,
	}
	if !target.h2c { // where a connection carries as many requests as the app allows
		transport.TLSClientConfig, transport.MaxConnsPerHost = config.TLS, config.MaxConns
	}
	return &standard{transport, target}
}

func (t *standard) send(ctx context.Context, r *request) (*http.Response, error) {
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
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
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
