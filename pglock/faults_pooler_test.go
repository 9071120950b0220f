package pglock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/leader"
	"github.com/pglock-toolkit/pglock/pglock/once"
	"github.com/pglock-toolkit/pglock/pglock/ratelimit"
	"github.com/pglock-toolkit/pglock/pglock/schedule"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

// pooled is a configuration that leads through a PgBouncer.
type pooled struct{ *pgxpool.Config }

// withLocker calls use with a new Locker.
func (p pooled) withLocker(t *testing.T, use func(context.Context, *pglock.Locker) error, opts ...pglock.Option) error {
	t.Helper()
	l, err := pglock.NewWithConfig(p.Config, opts...)
	must.Succeed(t, err)
	defer closeWithinAMinute(t, l)
	return use(minuteContext(t), l)
}

// withPool calls use with a new pool.
func (p pooled) withPool(t *testing.T, use func(context.Context, *pgxpool.Pool) error) error {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(t.Context(), p.Config)
	must.Succeed(t, err)
	defer pool.Close()
	return use(minuteContext(t), pool)
}

// refusedByPooler are calls that need a session of their own.
var refusedByPooler = map[string]func(context.Context, *pglock.Locker) error{
	"Ping": func(ctx context.Context, l *pglock.Locker) error { return l.Ping(ctx) },
	"Lock": func(ctx context.Context, l *pglock.Locker) error {
		_, err := l.Lock(ctx, pglock.NewKey("k"))
		return err
	},
	"LockAll": func(ctx context.Context, l *pglock.Locker) error {
		_, err := l.LockAll(ctx, []pglock.Key{pglock.NewKey("k"), pglock.NewKey("l")}, pglock.Shared())
		return err
	},
	"Holders": func(ctx context.Context, l *pglock.Locker) error {
		_, err := l.Holders(ctx, pglock.NewKey("k"))
		return err
	},
	"semaphore": func(ctx context.Context, l *pglock.Locker) error {
		s, err := semaphore.New(l, pglock.NewKey("s"), 2)
		if err != nil {
			return err
		}
		_, err = s.Acquire(ctx)
		return err
	},
	"leader": func(ctx context.Context, l *pglock.Locker) error {
		return leader.Run(ctx, l, pglock.NewKey("leader"), func(context.Context, *pglock.Lock) error { return nil })
	},
	"schedule": func(ctx context.Context, l *pglock.Locker) error {
		job, err := schedule.New(l, pglock.NewKey("job"))
		if err != nil {
			return err
		}
		return job.Run(ctx, time.Now(), func(context.Context, *pglock.Lock) error { return nil })
	},
}

// allowedByPooler are calls that need a session only for a transaction.
var allowedByPooler = map[string]func(context.Context, *pgxpool.Pool) error{
	"migrations": func(ctx context.Context, pool *pgxpool.Pool) error {
		_, err := migrations.Version(ctx, pool)
		return errors.Join(err, migrations.Up(ctx, pool))
	},
	"monitor": func(ctx context.Context, pool *pgxpool.Pool) error {
		_, err := monitor.Take(ctx, pool)
		return err
	},
	"LockTx": func(ctx context.Context, pool *pgxpool.Pool) error {
		return pglock.BeginFunc(ctx, pool, pglock.NewKey("k"), func(context.Context, pgx.Tx) error { return nil }, pglock.MaxWait(time.Minute))
	},
	"once": func(ctx context.Context, pool *pgxpool.Pool) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			scope, err := once.New(pglock.NewKey("scope"))
			if err != nil {
				return err
			}
			return scope.Tx(ctx, tx, "id")
		})
	},
	"ratelimit": func(ctx context.Context, pool *pgxpool.Pool) error {
		l, err := ratelimit.New(pool, pglock.NewKey("limits"), ratelimit.WithTimeout(time.Minute))
		if err == nil {
			_, err = l.Allow(ctx, "key", ratelimit.Limit{Count: 1, Per: time.Minute, Burst: 1000})
		}
		return err
	},
}

// Behind a transaction pooler, what a session keeps would reach other clients.
func TestLongFaultsAPoolerIsLeftWithoutATrace(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	install := func(ctx context.Context, pool *pgxpool.Pool) error { return migrations.Up(ctx, pool) }
	through := testenv.PgBouncer(t, db, testenv.TransactionPooling)
	config, err := pgxpool.ParseConfig(through)
	must.Succeed(t, err)
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	must.Succeed(t, (pooled{config}).withPool(t, install))
	clean := func(t *testing.T, what string) {
		t.Helper()
		for _, trace := range testenv.PooledTraces(t, db, through) {
			t.Errorf("%s left in a pooled session: %s", what, trace)
		}
	}
	for _, target := range []string{"any", "primary", "read-write", "prefer-standby"} {
		config, err := pgxpool.ParseConfig(through + "&target_session_attrs=" + target)
		must.Succeed(t, err)
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		p := pooled{config}
		for name, use := range refusedByPooler {
			if err := p.withLocker(t, use, pglock.WithNames()); !errors.Is(err, pglock.ErrPooler) {
				t.Errorf("%s, %s: %v", name, target, err)
			}
		}
		clean(t, "what was refused, "+target)
		if _, err := pglock.Open(t.Context(), through+"&target_session_attrs="+target); !errors.Is(err, pglock.ErrPooler) {
			t.Errorf("Open, %s: %v", target, err)
		}
		for name, use := range allowedByPooler {
			if err := p.withPool(t, use); err != nil && !errors.Is(err, pglock.ErrDone) {
				t.Errorf("%s, %s: %v", name, target, err)
			}
		}
		clean(t, "what needs no session, "+target)
	}
	remove := func(ctx context.Context, pool *pgxpool.Pool) error { return migrations.Down(ctx, pool) }
	must.Succeed(t, (pooled{config}).withPool(t, remove))
	clean(t, "Down")
}

// A pooler that keeps sessions resets one before the next client gets it.
func TestFaultsASessionPoolerIsLeftWithoutATrace(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	through := testenv.PgBouncer(t, db, testenv.SessionPooling)
	config, err := pgxpool.ParseConfig(through)
	must.Succeed(t, err)
	key := pglock.NewKey("k")
	err = pooled{config}.withLocker(t, func(ctx context.Context, l *pglock.Locker) error {
		lock := mustLock(t, l, key)
		_, err := l.Lock(ctx, key, pglock.MaxWait(time.Millisecond))
		mustUnlock(t, lock)
		return err
	}, pglock.AllowPooler())
	if !errors.Is(err, pglock.ErrNotAcquired) {
		t.Error(err)
	}
	for _, trace := range testenv.PooledTraces(t, db, through) {
		t.Errorf("left in a pooled session: %s", trace)
	}
}
