package httpapp

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// maxSocketPath is how long a Unix socket path may be on Linux.
const maxSocketPath = 107

// target is where an app listens.
type target struct {
	network string // tcp or unix
	address string // of the connection: host:port, or the socket's path
	scheme  string // http or https
	host    string // for the Host header
	prefix  string // escaped path before the kind, without a slash at its end
	display string // for error texts
	h2c     bool   // it speaks HTTP/2, without TLS and without being asked first
}

// schemes are those of the app's URL by what a connection is to carry.
func schemes() map[string]string {
	return map[string]string{"http": "http", "h2c": "http", "https": "https"}
}

// parseTarget reads the app's URL: http://, h2c://, https://, or
// unix:///path/to.sock or h2c+unix:///path/to.sock, these with an optional :/prefix.
func parseTarget(raw string) (target, error) {
	if socket, ok := strings.CutPrefix(raw, "unix://"); ok {
		return parseSocket(raw, socket)
	}
	if socket, ok := strings.CutPrefix(raw, "h2c+unix://"); ok {
		t, err := parseSocket(raw, socket)
		t.h2c = true
		return t, err
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The parser's error repeats the URL, which may hold a password.
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return target{}, fmt.Errorf("the app's URL cannot be read: %w; write it like http://127.0.0.1:8080/tasks", err)
	}
	if u.User != nil {
		return target{}, errors.New("the app's URL holds a user or password; remove them (the URL is shown to operators) and set a secret, so that the app can verify signatures")
	}
	scheme, known := schemes()[u.Scheme]
	if !known {
		return target{}, fmt.Errorf("the app's URL %q has no scheme this sidecar speaks; start it with http://, https://, h2c://, unix:/// or h2c+unix:///", raw)
	}
	if u.Hostname() == "" {
		return target{}, fmt.Errorf("the app's URL %q names no host; write it like http://127.0.0.1:8080/tasks", raw)
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return target{}, fmt.Errorf("the app's URL %q holds a query or fragment; remove it, the task's kind is appended to the path", raw)
	}
	if !printableASCII(u.Host) {
		return target{}, fmt.Errorf("the app's URL %q names a host that isn't ASCII; write it as DNS has it, like xn--bcher-kva.example", raw)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return target{
		network: "tcp",
		address: net.JoinHostPort(u.Hostname(), port),
		scheme:  scheme,
		h2c:     u.Scheme == "h2c",
		host:    withoutZone(u.Host),
		prefix:  escapedPath(u.Path),
		display: raw,
	}, nil
}

// parseSocket reads what follows unix://. The socket's path ends at the first
// ":/", so it may hold colons, and isn't percent-decoded.
func parseSocket(raw, socket string) (target, error) {
	path, prefix, _ := strings.Cut(socket, ":/")
	if !strings.HasPrefix(path, "/") {
		return target{}, fmt.Errorf("the app's URL %q names no absolute socket path; write it like unix:///run/app.sock or unix:///run/app.sock:/tasks", raw)
	}
	if len(path) > maxSocketPath {
		return target{}, fmt.Errorf("the socket path of the app's URL %q has %d bytes, the system takes %d; use a shorter one", raw, len(path), maxSocketPath)
	}
	prefix, err := url.PathUnescape(prefix)
	if err != nil {
		return target{}, fmt.Errorf("the path after the socket in the app's URL %q cannot be read: %w", raw, err)
	}
	if strings.ContainsAny(prefix, "?#") {
		return target{}, fmt.Errorf("the app's URL %q holds a query or fragment; remove it, the task's kind is appended to the path", raw)
	}
	return target{
		network: "unix",
		address: path,
		scheme:  "http",
		host:    "localhost",
		prefix:  escapedPath("/" + strings.TrimLeft(prefix, "/")),
		display: raw,
	}, nil
}

// withoutZone takes the zone off an IPv6 address, which means something on this machine
// only: [fe80::1%eth0]:80.
func withoutZone(host string) string {
	address, rest, found := strings.Cut(host, "%")
	if !found || !strings.HasPrefix(host, "[") {
		return host
	}
	_, port, _ := strings.Cut(rest, "]")
	return address + "]" + port
}

// escapedPath escapes a path and takes slashes off its end.
func escapedPath(path string) string {
	return (&url.URL{Path: strings.TrimRight(path, "/")}).EscapedPath()
}

// path returns prefix/segment/segment…, each segment escaped as a whole: a
// slash in a kind doesn't split it.
func (t *target) path(segments ...string) string {
	path := t.prefix
	for _, segment := range segments {
		path += "/" + url.PathEscape(segment)
	}
	return path
}
