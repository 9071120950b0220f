package faults_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/integration/faults"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// refusedByPooler uses Lockers behind a transaction pooler, where each call must be refused. In the end no session of
// the pooler may have a trace of them.
func refusedByPooler(t *testing.T, tally *faults.Tally) {
	db := testenv.On(t, testenv.NewServer(t, nil))
	through := testenv.PgBouncer(t, db, testenv.TransactionPooling)
	key := pglock.NewKey("pooled")
	calls := []func(context.Context, *pglock.Locker) error{
		func(ctx context.Context, l *pglock.Locker) error { return l.Ping(ctx) },
		func(ctx context.Context, l *pglock.Locker) error { _, err := l.Lock(ctx, key); return err },
		func(ctx context.Context, l *pglock.Locker) error {
			_, err := l.TryLock(ctx, key, pglock.Shared())
			return err
		},
		func(ctx context.Context, l *pglock.Locker) error { _, err := l.Holders(ctx, key); return err },
	}
	var all []func()
	for i := range scaled(500, 8) {
		target := []string{"any", "primary"}[i%2]
		all = append(all, func() {
			config, err := pgxpool.ParseConfig(through + "&target_session_attrs=" + target)
			if err != nil {
				t.Error(err)
				return
			}
			l, err := pglock.NewWithConfig(config, pglock.WithNames())
			if err != nil {
				t.Error(err)
				return
			}
			defer closeSoon(t, l)
			tally.Trials.Add(1)
			for _, call := range calls {
				err := pglock.ErrUnavailable
				for tries := 0; tries < 10 && errors.Is(err, pglock.ErrUnavailable); tries++ { // on a busy machine
					tally.Operations.Add(1)
					err = call(t.Context(), l)
				}
				if !errors.Is(err, pglock.ErrPooler) {
					violation(t, tally, "behind a transaction pooler: %v", err)
				}
			}
		})
	}
	atOnce(sideBySide, all)
	for _, trace := range testenv.PooledTraces(t, db, through) {
		violation(t, tally, "a pooled session has kept %s", trace)
	}
}

// silentFirstHost opens Lockers whose first address is silent, and takes a lock with each of them.
func silentFirstHost(t *testing.T, tally *faults.Tally) {
	db, _ := newServer(t)
	silent := testenv.SilentServer(t)
	var all []func()
	for i := range scaled(400, 8) {
		all = append(all, func() {
			config := db.Config(t)
			server := config.ConnConfig
			second := &pgconn.FallbackConfig{Host: server.Host, Port: server.Port}
			server.Host, server.Port, server.TLSConfig = silent.IP.String(), uint16(silent.Port), nil
			server.Fallbacks, server.ConnectTimeout = []*pgconn.FallbackConfig{second}, 500*time.Millisecond
			l, err := pglock.NewWithConfig(config, pglock.WithLease(lease))
			if err != nil {
				t.Error(err)
				return
			}
			defer closeSoon(t, l)
			tally.Trials.Add(1)
			tally.Partitions.Add(1)
			for _, key := range []string{"shared by all", fmt.Sprint("alone ", i)} {
				tally.Operations.Add(1)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				lock, err := l.Lock(ctx, pglock.NewKey(key), pglock.RetryUnavailable(time.Minute))
				if err == nil {
					err = lock.Unlock(ctx)
				}
				cancel()
				if err != nil && !errors.Is(err, pglock.ErrLost) { // the lease is short for a busy machine
					violation(t, tally, "the second address was not used: %v", err)
				}
			}
		})
	}
	atOnce(sideBySide, all)
}
