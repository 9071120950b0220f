package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/web"
)

// browsers is how many can be logged in at once.
const browsers = 20

// httpFlags are the flags of the page.
type httpFlags struct {
	address   string
	cert, key string
	insecure  bool
	hosts     []string
}

func (h *httpFlags) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&h.address, "http", "", "serve a read-only page on this `ADDRESS`, such as 127.0.0.1:8080")
	flags.StringVar(&h.cert, "http-cert", "", "the certificate of the page, a `FILE` in PEM")
	flags.StringVar(&h.key, "http-key", "", "the key of the certificate, a `FILE` in PEM")
	flags.StringArrayVar(&h.hosts, "http-host", nil, "accept this host `NAME` in requests, besides IP addresses")
	flags.BoolVar(&h.insecure, "insecure-http", false, "serve the page beyond loopback without TLS")
	completeToFiles(cmd, "http-cert", "http-key")
}

func (h *httpFlags) check(cmd *cobra.Command, once bool) error {
	if !cmd.Flags().Changed("http") {
		return nil
	}
	switch _, _, err := net.SplitHostPort(h.address); {
	case err != nil:
		return misuse(cmd, "--http: want HOST:PORT, such as 127.0.0.1:8080")
	case once:
		return misuse(cmd, "--http contradicts --once")
	case cmd.Flags().Changed("output") || cmd.Flags().Changed("events"):
		return misuse(cmd, "--http contradicts --output and --events")
	case (h.cert == "") != (h.key == ""):
		return misuse(cmd, "--http-cert and --http-key belong together")
	case h.cert == "" && !h.insecure && !web.Loopback(h.address):
		return misuse(cmd, "--http: %w", web.ErrInsecure)
	}
	return nil
}

// serve serves the page while it watches the server, until ctx ends.
func (m *watch) serve(ctx context.Context, db database, o *observer, filter view.Filter) error {
	listener, err := net.Listen("tcp", m.http.address)
	if err != nil {
		return &exit{codeOther, fmt.Errorf("serve the page: %w", err)}
	}
	scheme := "http"
	var secure *tls.Config
	if m.http.cert != "" {
		pair, err := tls.LoadX509KeyPair(m.http.cert, m.http.key)
		if err != nil {
			return &exit{codeOther, errors.Join(fmt.Errorf("serve the page: %w", err), listener.Close())}
		}
		scheme = "https"
		secure = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	token := web.NewToken()
	handler := web.New(web.Options{Token: token, Target: db.target, Flags: db.flags, Live: o.live, Past: o.recorder.memory,
		Hosts: m.http.hosts, Secure: secure != nil, Clients: browsers})
	address := &url.URL{Scheme: scheme, Host: listener.Addr().String(), Path: "/", RawQuery: "token=" + token}
	say(os.Stderr, "%s: open %s", db.target, address)
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		defer cancel()
		served <- web.Serve(ctx, listener, handler, browsers, secure)
	}()
	err = m.follow(ctx, db, o, filter, &printer{db: db})
	cancel()
	return errors.Join(err, <-served)
}

// live returns the current state for the page.
func (o *observer) live() web.Live {
	o.mu.Lock()
	defer o.mu.Unlock()
	return web.Live{Snapshot: o.latest, Events: o.events, Lost: o.lost}
}
