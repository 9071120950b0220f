package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/grafana"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/exporter"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/recording"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/web"
	"github.com/pglock-toolkit/pglock/monitor"
)

const serveHelp = `It takes a snapshot every --interval, for all who look, and serves until Ctrl-C
or SIGTERM:

  /         a page with the tree, the events and a timeline; read-only. Only the
            URL that the command prints opens it, as it has a token.
  /metrics  for Prometheus, without a token. docs/operating.md lists them.
  /healthz  whether this process works; pglock_up says whether the server does.

Beyond loopback it needs TLS, or --insecure if a proxy adds it; --host adds a
name by which the page may be called. Names and labels are those that other
roles chose, with any character: escape them before you print them.

--print writes the dashboard for Grafana or the alerting rules for Prometheus,
and exits. Edit the rules to change the thresholds.

Exit codes: 0 ended by Ctrl-C or SIGTERM; 64 wrong usage; 1 other errors, such
as an address in use. It keeps running while the database is unreachable.`

const (
	// browsers is how many can be logged in at once.
	browsers = 20
	// maxPast is how many bytes of recordings are kept in memory for the page.
	maxPast = 64 << 20
)

// serveRun is one call of serve.
type serveRun struct {
	dsn       *dsn
	filters   filters
	listen    string
	cert, key string
	insecure  bool
	hosts     []string
	interval  seconds
	file      string // to print
}

func newServe(server *dsn) *cobra.Command {
	s := serveRun{dsn: server, interval: seconds(time.Second)}
	cmd := &cobra.Command{
		Use:   "serve [DATABASE]",
		Short: "Serve a page for browsers, and metrics for Prometheus",
		Long:  serveHelp,
		Example: `  pglock serve
  pglock serve --listen 0.0.0.0:19187 --tls-cert cert.pem --tls-key key.pem
  pglock serve --print rules > pglock.rules.yml`,
		Args: arguments(0, 1, "one database"),
		RunE: s.command,
	}
	flags := cmd.Flags()
	flags.StringVar(&s.listen, "listen", "127.0.0.1:19187", "serve on this `HOST:PORT`; port 0 picks a free one")
	flags.Var(&s.interval, "interval", "take a snapshot every `duration`")
	flags.StringVar(&s.cert, "tls-cert", "", "the certificate, a `FILE` in PEM")
	flags.StringVar(&s.key, "tls-key", "", "the key of the certificate, a `FILE` in PEM")
	flags.StringArrayVar(&s.hosts, "host", nil, "accept this host `NAME` in requests, besides IP addresses")
	flags.BoolVar(&s.insecure, "insecure", false, "serve beyond loopback without TLS")
	flags.StringVar(&s.file, "print", "", "write a `FILE` and exit: dashboard or rules")
	complete(cmd, "print", "dashboard", "rules")
	s.filters.addAdvisoryTo(cmd)
	return cmd
}

func (s *serveRun) command(cmd *cobra.Command, args []string) error {
	if cmd.Flags().Changed("print") {
		return s.print(cmd)
	}
	if err := s.check(cmd); err != nil {
		return err
	}
	err := s.dsn.withPool(cmd, args, "pglock serve", func(ctx context.Context, db database, pool *pgxpool.Pool) error {
		if err := db.checkTrusted(ctx, pool); err != nil {
			return err
		}
		return s.serve(ctx, db, pool)
	})
	return unlessStopped(err)
}

func (s *serveRun) print(cmd *cobra.Command) error {
	text := map[string][]byte{"dashboard": grafana.Dashboard, "rules": exporter.Rules}[s.file]
	if text == nil {
		return misuse(cmd, "--print: must be dashboard or rules")
	}
	_, err := cmd.OutOrStdout().Write(text)
	return err
}

// leastInterval is the shortest time between two snapshots.
const leastInterval = 10 * time.Millisecond

func (s *serveRun) check(cmd *cobra.Command) error {
	switch _, _, err := net.SplitHostPort(s.listen); {
	case err != nil:
		return misuse(cmd, "--listen: want HOST:PORT, such as 127.0.0.1:19187")
	case time.Duration(s.interval) < leastInterval:
		return misuse(cmd, "--interval must be at least %v", leastInterval)
	case (s.cert == "") != (s.key == ""):
		return misuse(cmd, "--tls-cert and --tls-key belong together")
	case s.cert == "" && !s.insecure && !web.Loopback(s.listen):
		return misuse(cmd, "--listen: %w", web.ErrInsecure)
	}
	return nil
}

// serve serves while it watches the server, until ctx ends.
func (s *serveRun) serve(ctx context.Context, db database, pool *pgxpool.Pool) error {
	scheme, secure, err := s.tls()
	if err != nil {
		return &exit{codeOther, err}
	}
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return &exit{codeOther, fmt.Errorf("serve: %w", err)}
	}
	o := newObserver(pool, db.flags, s.filters.options(db))
	o.recorder = &recorder{memory: recording.NewMemory(maxPast)}
	metrics := exporter.New(exporter.Options{Interval: time.Duration(s.interval), Version: moduleVersion()})
	token := web.NewToken()
	mux := http.NewServeMux()
	mux.Handle("/", web.New(web.Options{Token: token, Target: db.target, Flags: db.flags, Live: func() web.Live { return o.live(time.Duration(s.interval)) }, Past: o.recorder.memory,
		Hosts: s.hosts, Secure: secure != nil, Clients: browsers}))
	scraped := http.Handler(metrics)
	if web.Loopback(listener.Addr().String()) { // beyond it Prometheus may use any name, and other computers read the metrics anyway
		scraped = web.OnHosts(s.hosts, metrics)
	}
	mux.Handle("/metrics", scraped)
	mux.Handle("/healthz", scraped)
	address := &url.URL{Scheme: scheme, Host: listener.Addr().String(), Path: "/", RawQuery: "token=" + token}
	say(os.Stderr, "%s: open %s", db.target, address)
	say(os.Stderr, "%s: metrics are at %s://%s/metrics", db.target, scheme, listener.Addr())
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		defer cancel()
		served <- serveHTTP(ctx, listener, mux, secure)
	}()
	err = s.observe(ctx, db, o, metrics)
	cancel()
	return errors.Join(err, <-served)
}

func (s *serveRun) tls() (scheme string, secure *tls.Config, err error) {
	if s.cert == "" {
		return "http", nil, nil
	}
	pair, err := tls.LoadX509KeyPair(s.cert, s.key)
	if err != nil {
		return "", nil, fmt.Errorf("serve: %w", err)
	}
	return "https", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// observe takes snapshots for the page and the metrics.
func (s *serveRun) observe(ctx context.Context, db database, o *observer, metrics *exporter.Exporter) error {
	outage, unread := newOutage(db, time.Duration(s.interval)), false
	defer outage.alarm.Stop()
	return o.watch(ctx, time.Duration(s.interval), func(latest *monitor.Snapshot, _ []journal.Event, err error) error {
		outage.note(err)
		metrics.Note(latest, err)
		if latest != nil && (latest.RowLocksMissing != "") != unread {
			if unread = !unread; unread {
				say(os.Stderr, "%s: locks in rows: %s", db.target, latest.RowLocksMissing)
			}
		}
		return nil
	})
}

var errSilent = errors.New("the server has not answered yet")

// live returns the current state for the page. A snapshot that is older than three intervals is not the present.
func (o *observer) live(interval time.Duration) web.Live {
	o.mu.Lock()
	defer o.mu.Unlock()
	lost := o.lost
	if lost == nil && o.latest != nil && time.Since(o.noted) > max(3*interval, time.Second) {
		lost = errSilent
	}
	return web.Live{Snapshot: o.latest, Events: o.events, Lost: lost}
}
