package histories_test

import (
	"context"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/integration/histories"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
)

// What is between the Lockers and the server, and the server itself, ends, hangs or loses answers.
func TestLongLocksInRowsAreLinearizableInAStorm(t *testing.T) {
	t.Parallel()
	server := testenv.NewServer(t, nil)
	db := testenv.On(t, server)
	admin := db.Pool(t)
	must.Succeed(t, migrations.Up(t.Context(), admin))
	pooler := testenv.NewPooler(t, db, testenv.TransactionPooling)
	r := &run{T: t, history: histories.New(), looks: true, rest: 10 * time.Millisecond, rounds: 2}
	var links []*testenv.Link
	for range 4 {
		link := testenv.NewLink(0)
		t.Cleanup(link.Close)
		links = append(links, link)
		cfg, err := pgxpool.ParseConfig(pooler.ConnString())
		must.Succeed(t, err)
		cfg.ConnConfig.DialFunc = link.Dial
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		must.Succeed(t, err)
		l, err := rowlock.New(pool, pglock.WithLease(lease))
		must.Succeed(t, err)
		pool.Close() // only its configuration is needed
		r.add(l)
	}
	const ofThePooler = `from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
		and backend_type = 'client backend'`
	crash := func(*testenv.Link) {
		var pid int // the server may be starting, and the process may have ended
		if admin.QueryRow(context.Background(), "select pid "+ofThePooler+" order by random() limit 1").Scan(&pid) == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	lasts := func(ctx context.Context) { pause(ctx, rand.N(3*lease/2)) }
	r.work(func(ctx context.Context) {
		for _, fault := range []func(*testenv.Link){
			func(*testenv.Link) {
				_, _ = admin.Exec(context.Background(), "select pg_terminate_backend(pid) "+ofThePooler)
			},
			func(link *testenv.Link) { link.Cut(false, true); lasts(ctx); link.Cut(false, false) },
			func(link *testenv.Link) { link.Cut(true, true); lasts(ctx); link.Cut(false, false) },
			func(*testenv.Link) { must.Succeed(t, pooler.Restart(context.Background())) },
			func(*testenv.Link) { must.Succeed(t, pooler.Pause()); lasts(ctx); must.Succeed(t, pooler.Resume()) },
			crash,
			func(*testenv.Link) { must.Succeed(t, server.Freeze()); lasts(ctx); must.Succeed(t, server.Thaw()) },
		} {
			enough := r.history.Len() + 50
			fault(links[rand.IntN(len(links))])
			testenv.WaitUntil(t, "locks are granted again", func() bool { return r.history.Len() >= enough || ctx.Err() != nil })
		}
	})
	testenv.WaitUntil(t, "the server has recovered from a crash", func() bool { return admin.Ping(context.Background()) == nil })
}
