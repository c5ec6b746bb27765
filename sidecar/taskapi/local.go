package taskapi

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// local lets only programs of this machine through. An address of the listener
// keeps other machines out, but not web pages in a browser on this one: those
// are told by the headers that a browser adds, and, when a page's own name was
// made to point here, by that name.
func (h *handler) local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header["Origin"] != nil || r.Header["Sec-Fetch-Site"] != nil {
			forbidden("requests of web pages are refused; call from the app, without Origin and Sec-Fetch-Site headers").write(w)
			return
		}
		if !h.allowedHost(r.Host) {
			forbidden("the Host header names another machine; call by localhost or a loopback address, or allow the name in the sidecar's configuration").write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (h *handler) allowedHost(hostport string) bool {
	host := hostport
	if name, _, err := net.SplitHostPort(hostport); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	if address, err := netip.ParseAddr(host); err == nil && address.IsLoopback() {
		return true
	}
	for _, allowed := range h.options.AllowedHosts {
		if strings.EqualFold(host, allowed) {
			return true
		}
	}
	return false
}
