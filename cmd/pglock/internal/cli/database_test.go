package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// While all connections are taken, a command keeps the one that it has, however old it is, and another one says who can connect.
func TestAConnectionIsKeptWhileTheServerIsFull(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	connString := db.Role(t, "app")
	config, err := parse(connString + "&pool_max_conn_lifetime=1ns")
	must.Succeed(t, err)
	_, err = db.Connect(t).Exec(t.Context(), "ALTER ROLE "+pgx.Identifier{config.ConnConfig.User}.Sanitize()+" CONNECTION LIMIT 1")
	must.Succeed(t, err)
	d := database{config: config, target: "shop"}
	var pids [2]int32
	pool, err := d.pool(t.Context(), "pglock monitor")
	must.Succeed(t, err)
	defer pool.Close()
	for i := range pids {
		must.Succeed(t, pool.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pids[i]))
	}
	if pids[0] != pids[1] {
		t.Errorf("the sessions are %v", pids)
	}
	other, err := d.pool(t.Context(), "pglock doctor")
	must.Succeed(t, err)
	defer other.Close()
	if _, err = other.Exec(t.Context(), "SELECT 1"); err == nil || !strings.Contains(d.failed(err).Error(), "reserved for superusers and") {
		t.Errorf("another command ends with %v", err)
	}
}

func TestOneLineLeavesOutAttemptsWithTLSIfTheServerHasNone(t *testing.T) {
	const (
		head   = "failed to connect to `user=app database=shop`:"
		noTLS  = "db:5432 (10.0.0.1): tls error: server refused TLS connection"
		denied = "db:5432 (10.0.0.1): failed SASL auth: FATAL: no"
		other  = "db:5432 (10.0.0.2): dial error"
	)
	for text, want := range map[string]string{
		head + "\n\t" + noTLS + "\n\t" + denied: head + " " + denied,
		head + "\n\t" + denied + "\n\t" + noTLS: head + " " + denied,
		head + "\n\t" + noTLS + "\n\t" + noTLS:  head + " " + noTLS,
		head + "\n\t" + noTLS + "\n\t" + other:  head + " " + noTLS + "; " + other,
		head + " " + noTLS:                      head + " " + noTLS,
	} {
		if got := oneLine(text); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// FuzzDSN: an error has no password, whatever is wrong beside it.
func FuzzDSN(f *testing.F) {
	for _, text := range []string{"localhost/shop", "h:1,h:2/?sslmode=verify-full", "[::1]:x/", "%zz", " host=a port=b", "'", `\' dbname=`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, value := range []string{"postgres://u:hunter2@" + text, "password=hunter2 " + text, text + " password=hunter2"} {
			if _, err := parse(value); err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q: %v", value, err)
			}
		}
	})
}

// A connection string for psql works here too, and what would weaken it is refused by name.
func TestALongErrorOfAServerIsCutShort(t *testing.T) {
	err := database{target: "shop"}.failed(errors.New(strings.Repeat("x", 1<<24)))
	if n := len(err.Error()); n > 3000 {
		t.Errorf("it has %d bytes", n)
	}
}

func TestParametersOfLibpqAreAcceptedOrNamed(t *testing.T) {
	t.Parallel()
	connString := testenv.Database(t).ConnString()
	for parameters, refused := range map[string]string{
		"keepalives=1&keepalives_idle=30&tcp_user_timeout=10000": "", "fallback_application_name=web": "", "gssencmode=disable": "",
		"sslcompression=0&sslcrl=&requirepeer=postgres&gsslib=gssapi&replication=false": "", "client_encoding=auto": "",
		"ssl_min_protocol_version=TLSv1.2": "", "hostaddr=127.0.0.1": "",
		"gssencmode=require": "gssencmode", "sslcrl=/revoked": "sslcrl", "replication=database": "replication",
		"ssl_min_protocol_version=2": "ssl_min_protocol_version", "hostaddr=127.0.0.1,127.0.0.2": "hostaddr",
	} {
		config, err := parse(connString + "&" + parameters)
		if err == nil {
			var conn *pgx.Conn
			if conn, err = pgx.ConnectConfig(t.Context(), config.ConnConfig); err == nil {
				must.Succeed(t, conn.Close(t.Context()))
			}
		}
		if refused == "" && err != nil || refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
			t.Errorf("%s: %v", parameters, err)
		}
	}
	config, err := parse("postgres://db.example/shop?sslmode=verify-full&hostaddr=127.0.0.1&ssl_min_protocol_version=TLSv1.3")
	must.Succeed(t, err)
	addresses, err := config.ConnConfig.LookupFunc(t.Context(), "db.example")
	if tls := config.ConnConfig.TLSConfig; err != nil || addresses[0] != "127.0.0.1" || tls.ServerName != "db.example" || tls.MinVersion != 0x304 {
		t.Errorf("%v, %v, %+v", addresses, err, tls)
	}
	if _, err := parse("host=h sslmode=require sslcert=/c sslkey='-----BEGIN PRIVATE KEY-----secret'"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("an inline key: %v", err)
	}
	for _, name := range []string{"shop", "2024_shop", "shop.prod", "größe"} {
		if !isName(name) {
			t.Errorf("%s is no name", name)
		}
	}
}

// --server-wait outlasts a server that is starting, for so long and no longer, and no other error.
func TestAServerThatIsStartingIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		times int
		took  time.Duration
	}{
		"answers at once": {pglock.ErrUnavailable, 0, 0}, "starts": {pglock.ErrUnavailable, 4, 2 * time.Second},
		"never starts": {pglock.ErrUnavailable, 1000, 10 * time.Second}, "denies access": {pglock.ErrDenied, 1000, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, calls := time.Now(), 0
			w := dsn{wait: seconds(10 * time.Second)}
			answered := w.await(t.Context(), func(context.Context) error {
				if calls++; calls <= c.times {
					return c.err
				}
				return nil
			})
			if took := time.Since(began); took != c.took || answered == (name == "never starts") {
				t.Errorf("%s: it took %v, and %v", name, took, answered)
			}
		})
	}
}
