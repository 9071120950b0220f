package exporter

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// onLoopback answers only requests whose Host header names this computer, if the server's address is a loopback address.
// Otherwise a web page whose host name resolves to loopback (DNS rebinding) could read the names of locks. Such a page
// cannot change the Host header, which has its own name.
func onLoopback(served net.Addr, handler http.Handler) http.Handler {
	address, ok := served.(*net.TCPAddr)
	if !ok || !address.IP.IsLoopback() {
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) {
			http.Error(w, "this is served on a loopback address, for loopback hosts such as localhost", http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// isLoopback reports whether a Host header names this computer. RFC 6761 reserves localhost and names that end
// in .localhost.
func isLoopback(header string) bool {
	host := header
	if h, _, err := net.SplitHostPort(header); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}
