// Package web serves the read-only page of pglock serve: holders and waiters, events, and a timeline of what the
// monitor has seen.
//
// Access requires a token, which is exchanged for a cookie and a secret. Browsers send cookies to all ports of a host, so
// the cookie alone gives only the empty page: data also needs the secret, which the page keeps in its sessionStorage, to
// which pages of other ports have no access, and sends as a header. All requests are GET. None changes anything on the server or
// signals a session. Texts from the database are sent as JSON and inserted as text.
package web

import (
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"net/netip"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/recording"
	"github.com/pglock-toolkit/pglock/monitor"
)

// Live is the current state.
type Live struct {
	Snapshot *monitor.Snapshot // nil before the first snapshot
	Events   []journal.Event   // latest last
	Lost     error             // why there has been no snapshot since then
}

// Options configures the page.
type Options struct {
	// Token grants access.
	Token string
	// Target names the server, with the role and without the password.
	Target string
	// Flags name the server on a command line, with a space before each, for [view.EndCommand]. It may be empty.
	Flags string
	// Live returns the current state, and Past finds earlier ones. They return at once, also while the server does not answer.
	Live func() Live
	Past *recording.Memory
	// Hosts are names, without a port, that requests may use besides loopback names and addresses.
	Hosts []string
	// Secure says that TLS is in use.
	Secure bool
	// Clients is how many browsers may be logged in.
	Clients int
}

// server answers requests for data.
type server struct {
	Options
	now  cache
	then history
}

// New returns the handler of the page.
func New(o Options) http.Handler {
	all := newSite(o)
	s := &server{Options: o, now: cache{answers: map[string]answer{}}, then: history{past: o.Past}}
	all.addPage("index.html", "text.js", "access.js", "list.js", "tree.js", "lists.js", "timeline.js", "app.js")
	all.addData("/api/now", s.serveNow)
	all.addData("/api/at", s.serveAt)
	all.addData("/api/timeline", s.serveTimeline)
	return OnHosts(o.Hosts, all)
}

// NewToken returns a new random token.
func NewToken() string { return rand.Text() }

// ErrInsecure means that the page is not served beyond loopback without TLS.
var ErrInsecure = errors.New("beyond loopback it needs TLS (--tls-cert and --tls-key), or --insecure if " +
	"a proxy adds it")

// Loopback reports whether an address to listen on is reachable only from this machine.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
