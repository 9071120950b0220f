// Package web serves the read-only page of pglock monitor --http: holders and waiters, events, and a timeline of the
// recorded past.
//
// Access requires a token, which is exchanged for a cookie and a secret. Browsers send cookies to all ports of a host, so
// the cookie alone gives only the empty page: data also needs the secret, which the page keeps in its sessionStorage, to
// which pages of other ports have no access, and sends as a header. All requests are GET. None changes anything on the server or
// signals a session. Texts from the database are sent as JSON and inserted as text.
package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/places"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/recording"
	"github.com/pglock-toolkit/pglock/monitor"
)

//go:embed page
var page embed.FS

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
	// Target names the server on the page, without the password.
	Target string
	// Flags name the server on a command line, with a space before each, for [view.EndCommand]. It may be empty.
	Flags string
	// All says that the page shows waits of every type unless it is told not to.
	All bool
	// Live returns the current state, and Past finds earlier ones.
	Live func() Live
	Past *recording.Past
	// Hosts are names, without a port, that requests may use besides loopback names and addresses.
	Hosts []string
	// Secure says that TLS is in use.
	Secure bool
	// Clients is how many browsers may be logged in, and how many connections may be open.
	Clients int
}

// server answers requests.
type server struct {
	Options
	mux    *http.ServeMux
	secret string // proves that a request comes from the page of this port

	mu       sync.Mutex
	sessions []string // hashes of the cookies, the oldest first

	now  cache
	then history
}

// New returns the handler of the page.
func New(o Options) http.Handler {
	s := &server{Options: o, mux: http.NewServeMux(), secret: rand.Text(), now: cache{states: map[choice][]*encodedState{}},
		then: history{past: o.Past}}
	s.mux.HandleFunc("/{$}", s.file("page/index.html", "text/html; charset=utf-8"))
	for _, name := range []string{"text", "list", "tree", "lists", "timeline", "app"} {
		s.mux.HandleFunc("/"+name+".js", s.file("page/"+name+".js", "text/javascript; charset=utf-8"))
	}
	s.mux.HandleFunc("/style.css", s.file("page/style.css", "text/css; charset=utf-8"))
	s.mux.HandleFunc("/api/now", s.serveNow)
	s.mux.HandleFunc("/api/at", s.serveAt)
	s.mux.HandleFunc("/api/timeline", s.serveTimeline)
	return s
}

// NewToken returns a new random token.
func NewToken() string { return rand.Text() }

// Serve serves until ctx ends, with TLS unless its configuration is nil. It disconnects clients that take more than 15
// seconds to read an answer. Of the connections, four for each client, it closes those that are not logged in first.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, clients int, secure *tls.Config) error {
	srv := &http.Server{
		ErrorLog: places.Quiet(os.Stderr),
		Handler:  handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 15 * time.Second, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	done := make(chan error, 1)
	go func() { done <- places.Serve(srv, listener, 4*clients, secure) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve the page: %w", err)
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	err := srv.Shutdown(ctx)
	if err != nil { // a connection is slow
		err = srv.Close()
	}
	if served := <-done; err == nil && !errors.Is(served, http.ErrServerClosed) {
		err = served
	}
	return err
}

var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cache-Control":                "no-store",
}

// ServeHTTP checks access and serves the page.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	data := strings.HasPrefix(r.URL.Path, "/api/")
	switch {
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
	case !s.hostAllowed(r):
		http.Error(w, "this host name is not served here (--http-host adds one)", http.StatusMisdirectedRequest)
	case !sameSite(r):
		s.reload(w, r)
	case r.URL.Path == "/" && r.URL.Query().Has("token"):
		s.exchange(w, r)
	case !s.authorized(r), data && !same(r.Header.Get(secretHeader), s.secret):
		http.Error(w, "open the URL that pglock monitor has printed", http.StatusUnauthorized)
	default:
		if data {
			places.Keep(r.Context()) // for good: the client is logged in
		}
		s.mux.ServeHTTP(w, r)
	}
}

// hostAllowed refuses requests from foreign pages whose name resolves to this host (DNS rebinding). Such a name is
// neither an address nor one of Options.Hosts.
func (s *server) hostAllowed(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if address, err := netip.ParseAddr(host); err == nil {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr) // always there in a server
		return address.IsLoopback() || local != nil && sameAddress(local, address)
	}
	return strings.EqualFold(host, "localhost") || slices.ContainsFunc(s.Hosts, func(name string) bool {
		return strings.EqualFold(name, host)
	})
}

func sameAddress(local net.Addr, address netip.Addr) bool {
	own, err := netip.ParseAddrPort(local.String())
	return err == nil && own.Addr().Unmap() == address.Unmap()
}

// sameSite refuses requests from other sites. A client that sends no such header is an old browser,
// or none.
func sameSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "" || site == "none" || site == "same-origin"
}

// reload answers a link from another site with an empty page that reloads itself. The next request then comes from this
// site, with the cookie. It refuses other requests from another site.
func (s *server) reload(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document" {
		http.Error(w, "not for other sites", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte("<!doctype html><title>pglock</title><meta http-equiv=refresh content=0>")) // the client is gone
}

// secretHeader is the header in which the page sends the secret.
const secretHeader = "Pglock-Secret"

// exchange sets a cookie for the token, and redirects to the page without the token but with the secret, in the fragment,
// which browsers do not send.
func (s *server) exchange(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if !same(query.Get("token"), s.Token) {
		http.Error(w, "the token is wrong: open the URL that pglock monitor has printed", http.StatusUnauthorized)
		return
	}
	value := rand.Text()
	s.mu.Lock()
	s.sessions = append(s.sessions, hash(value))
	s.sessions = s.sessions[max(0, len(s.sessions)-s.Clients):]
	s.mu.Unlock()
	http.SetCookie(w, &http.Cookie{Name: s.cookie(r), Value: value, Path: "/", HttpOnly: true, Secure: s.Secure,
		SameSite: http.SameSiteStrictMode})
	query.Del("token")
	http.Redirect(w, r, (&url.URL{Path: "/", RawQuery: query.Encode(), Fragment: "secret=" + s.secret}).String(), http.StatusSeeOther)
}

// cookie returns the name of the cookie. Because of its prefix, browsers send it only to this host, but to all ports. So
// the name contains the port, which lets pages of several monitors be open at once.
func (s *server) cookie(r *http.Request) string {
	name := "pglock"
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		name += "-" + strconv.Itoa(local.Port)
	}
	if s.Secure {
		return "__Host-" + name
	}
	return name
}

func (s *server) authorized(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Other ports can set a cookie of this name for a longer path, which then comes before ours.
	return slices.ContainsFunc(r.CookiesNamed(s.cookie(r)), func(cookie *http.Cookie) bool {
		return slices.Contains(s.sessions, hash(cookie.Value))
	})
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return string(sum[:])
}

// same compares in constant time.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(hash(a)), []byte(hash(b))) == 1 }

func (s *server) file(name, kind string) http.HandlerFunc {
	text, err := page.ReadFile(name)
	if err != nil {
		panic(err) // the file is embedded
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(text) // the client is gone
	}
}

// ErrInsecure means that the page is not served beyond loopback without TLS.
var ErrInsecure = errors.New("beyond loopback the page needs TLS (--http-cert and --http-key), or --insecure-http if " +
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
