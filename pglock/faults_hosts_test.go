package pglock_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
)

// silentFirst are the ways in which addresses that are silent can come before that of the server.
var silentFirst = map[string]func(*testing.T, *pgconn.Config){
	"a host": prependSilentHost,
	"two hosts, and the server must be the primary": func(t *testing.T, config *pgconn.Config) {
		prependSilentHost(t, config)
		prependSilentHost(t, config)
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary
	},
	"an address of a name": func(t *testing.T, config *pgconn.Config) {
		addresses := []string{
			testenv.SilentServer(t).String(), net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))),
		}
		config.Host, config.TLSConfig, config.Fallbacks = "db.example", nil, nil
		config.LookupFunc = func(context.Context, string) ([]string, error) { return addresses, nil }
	},
}

func prependSilentHost(t *testing.T, config *pgconn.Config) {
	server := &pgconn.FallbackConfig{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}
	config.Fallbacks = append([]*pgconn.FallbackConfig{server}, config.Fallbacks...)
	silent := testenv.SilentServer(t)
	config.Host, config.Port, config.TLSConfig = silent.IP.String(), uint16(silent.Port), nil
}

// Each silent address costs the ConnectTimeout, and then the next one is asked, whatever the connection is for. Attempts
// are repeated, since the timeout is short for a server on a busy machine; a bound on all addresses together would end
// every attempt before it comes to the server.
func TestFaultsASilentAddressIsPassedOver(t *testing.T) {
	for name, prepend := range silentFirst {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testenv.Installed(t)
			config := db.Config(t)
			prepend(t, &config.ConnConfig.Config)
			config.ConnConfig.ConnectTimeout = time.Second
			l, _ := openConfig(t, config, pglock.WithNames())
			key, ctx := pglock.NewKey("k"), minuteContext(t)
			held := <-lockWhenAvailable(t, l, key)
			untilAvailable(t, "Ping, with a connection for names", func() error { return l.Ping(ctx) })
			waiter := lockLater(t, openLocker(t, db), key)
			db.WaitForWaiters(t, 1)
			queued := lockWhenAvailable(t, l, pglock.NewKey("other"))
			mustUnlock(t, <-queued)
			job, err := schedule.New(l, pglock.NewKey("job"))
			must.Succeed(t, err)
			ran := false
			due := time.Now().Add(-time.Minute)
			untilAvailable(t, "a run, with a connection for records", func() error {
				return job.Run(ctx, due, func(context.Context, *pglock.Lock) error {
					ran = true
					return nil
				})
			})
			if !ran {
				t.Error("the job has not run")
			}
			mustUnlock(t, held)
			taken := <-waiter
			wanted := lockWhenAvailable(t, l, key) // on a session that waits
			db.WaitForWaiters(t, 1)
			mustUnlock(t, taken)
			mustUnlock(t, <-wanted)
		})
	}
}

// untilAvailable repeats a call while the server is unavailable, for up to a minute.
func untilAvailable(t *testing.T, what string, call func() error) {
	t.Helper()
	var err error
	testenv.WaitUntil(t, what, func() bool {
		err = call()
		return !errors.Is(err, pglock.ErrUnavailable)
	})
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// However long an address may take, a context ends the wait for it, and so does Close.
func TestFaultsAContextEndsTheWaitForASilentAddress(t *testing.T) {
	t.Parallel()
	config := testenv.Database(t).Config(t)
	prependSilentHost(t, &config.ConnConfig.Config)
	config.ConnConfig.ConnectTimeout = time.Hour
	l, err := pglock.NewWithConfig(config, pglock.WithNames())
	must.Succeed(t, err)
	job, err := schedule.New(l, pglock.NewKey("job"))
	must.Succeed(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	calls := []func() error{
		func() error { return l.Ping(ctx) },
		func() error {
			_, err := l.Lock(ctx, pglock.NewKey("k"))
			return err
		},
		func() error {
			return job.Run(ctx, time.Now(), func(context.Context, *pglock.Lock) error { return nil })
		},
	}
	for _, call := range calls {
		go func() { ended <- call() }()
	}
	cancel()
	for range calls {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	closeWithinAMinute(t, l)
}

// BeforeConnect and the lookup of a name are bounded too, since they may wait for a server of their own.
func TestFaultsWhatPrecedesAConnectionIsBounded(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, slow := range map[string]func(*pgxpool.Config){
		"BeforeConnect": func(config *pgxpool.Config) {
			config.BeforeConnect = func(ctx context.Context, _ *pgx.ConnConfig) error { return hang(ctx) }
		},
		"lookup": func(config *pgxpool.Config) {
			config.ConnConfig.LookupFunc = func(ctx context.Context, _ string) ([]string, error) { return nil, hang(ctx) }
		},
	} {
		config, err := pgxpool.ParseConfig("host=db.example")
		must.Succeed(t, err)
		config.ConnConfig.ConnectTimeout = 10 * time.Millisecond
		slow(config)
		l, err := pglock.NewWithConfig(config)
		must.Succeed(t, err)
		if err := l.Ping(minuteContext(t)); !errors.Is(err, pglock.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		closeWithinAMinute(t, l)
	}
}
