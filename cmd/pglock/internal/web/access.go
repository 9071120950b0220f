package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

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

// site answers requests that have access.
type site struct {
	Options
	mux    *http.ServeMux
	secret string // proves that a request comes from a page of this port

	mu       sync.Mutex
	sessions []string // hashes of the cookies, the oldest first
}

func newSite(o Options) *site { return &site{Options: o, mux: http.NewServeMux(), secret: rand.Text()} }

//go:embed page
var files embed.FS

// addPage adds the page, its style and its scripts.
func (s *site) addPage(page string, scripts ...string) {
	s.mux.HandleFunc("/{$}", file(page, "text/html; charset=utf-8"))
	s.mux.HandleFunc("/style.css", file("style.css", "text/css; charset=utf-8"))
	for _, script := range scripts {
		s.mux.HandleFunc("/"+script, file(script, "text/javascript; charset=utf-8"))
	}
}

// addData adds what only a request with the secret gets.
func (s *site) addData(path string, serve http.HandlerFunc) {
	s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		if !same(r.Header.Get(secretHeader), s.secret) {
			unauthorized(w)
			return
		}
		serve(w, r)
	})
}

func file(name, kind string) http.HandlerFunc {
	text, err := files.ReadFile("page/" + name)
	if err != nil {
		panic(err) // the file is embedded
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(text) // the client is gone
	}
}

// ServeHTTP checks access and serves the page, behind [OnHosts].
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
	case !sameSite(r):
		s.reload(w, r)
	case isPage(r) && r.URL.Query().Has("token"):
		s.exchange(w, r)
	case !s.authorized(r):
		unauthorized(w)
	default:
		s.mux.ServeHTTP(w, r)
	}
}

func unauthorized(w http.ResponseWriter) {
	http.Error(w, "open the URL that pglock serve has printed", http.StatusUnauthorized)
}

func isPage(r *http.Request) bool { return r.URL.Path == "/" }

// OnHosts refuses requests from foreign pages whose name resolves to this host (DNS rebinding). Such a name is neither an
// address nor one of hosts. All answers tell browsers what a page must not do with them.
func OnHosts(hosts []string, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		if !hostAllowed(r, hosts) {
			http.Error(w, "this host name is not served here (--host adds one)", http.StatusMisdirectedRequest)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

func hostAllowed(r *http.Request, hosts []string) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if address, err := netip.ParseAddr(host); err == nil {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr) // always there in a server
		return address.IsLoopback() || local != nil && sameAddress(local, address)
	}
	return strings.EqualFold(host, "localhost") || slices.ContainsFunc(hosts, func(name string) bool {
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
func (s *site) reload(w http.ResponseWriter, r *http.Request) {
	if !isPage(r) || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document" {
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
func (s *site) exchange(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if !same(query.Get("token"), s.Token) {
		http.Error(w, "the token is wrong: open the URL that pglock serve has printed", http.StatusUnauthorized)
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
	http.Redirect(w, r, (&url.URL{Path: r.URL.Path, RawQuery: query.Encode(), Fragment: "secret=" + s.secret}).String(), http.StatusSeeOther)
}

// cookie returns the name of the cookie. Because of its prefix, browsers send it only to this host, but to all ports. So
// the name contains the port, which lets pages of several monitors be open at once.
func (s *site) cookie(r *http.Request) string {
	name := "pglock"
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		name += "-" + strconv.Itoa(local.Port)
	}
	if s.Secure {
		return "__Host-" + name
	}
	return name
}

func (s *site) authorized(r *http.Request) bool {
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
