package once_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/once"
)

// keep is how long the tests keep records. They let time pass by calling age.
const keep = 6 * time.Hour

// age makes all records older by d.
func age(t *testing.T, pool *pgxpool.Pool, d time.Duration) {
	t.Helper()
	execute(t, pool, "UPDATE pglock.once_records SET done_at = done_at - $1::interval", d)
}

func TestOnceRecordsAreKeptForAsLongAsAskedAndThenForgotten(t *testing.T) {
	t.Parallel()
	_, pool := installed(t)
	execute(t, pool, "INSERT INTO pglock.once_records (scope, id) SELECT 'many', i FROM generate_series(1, 2500) AS i")
	must.Succeed(t, do(t, pool, "s", "1"))
	age(t, pool, time.Hour)
	must.Succeed(t, do(t, pool, "s", "2"))
	age(t, pool, keep-time.Minute)
	must.Succeed(t, once.Prune(t.Context(), pool, keep))
	if left := must.One[int](t, pool, "SELECT count(*) FROM pglock.once_records"); left != 1 {
		t.Errorf("%d records are left", left)
	}
	wantIs(t, do(t, pool, "s", "2"), pglock.ErrDone)
	must.Succeed(t, do(t, pool, "s", "1")) // forgotten, so it is the first
	wantIs(t, do(t, pool, "s", "1"), pglock.ErrDone)
}

// A call that meets a record which is being deleted waits for that, and records again what it is the first to do.
func TestOnceARecordThatIsBeingDeletedIsNoRecordOfTheNext(t *testing.T) {
	t.Parallel()
	db, pool := installed(t)
	must.Succeed(t, do(t, pool, "s", "1"))
	age(t, pool, 2*keep)
	prune := begin(t, pool)
	execute(t, prune, "SELECT pglock.once_prune($1, 10)", keep)
	must.Succeed(t, once.Prune(t.Context(), pool, keep)) // it waits for no other
	next := make(chan error, 1)
	go func() { next <- do(t, pool, "s", "1") }()
	testenv.WaitUntil(t, "the call waits", func() bool {
		return must.One[bool](t, db.Pool(t), waitsIn)
	})
	commit(t, prune)
	must.Succeed(t, <-next)
	wantIs(t, do(t, pool, "s", "1"), pglock.ErrDone)
}

// The lookups use the index even where the statistics say that the table is empty.
func TestOnceLooksUseTheIndex(t *testing.T) {
	t.Parallel()
	_, pool := installed(t)
	conn, err := pool.Acquire(t.Context())
	must.Succeed(t, err)
	defer conn.Release()
	execute(t, conn, "VACUUM ANALYZE pglock.once_records")
	ask := func(i int) {
		for _, want := range []error{nil, pglock.ErrDone} {
			wantIs(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
				return scope(t, "s").Tx(t.Context(), tx, fmt.Sprint("look ", i))
			}), want)
		}
	}
	for i := range 10 { // until the plan is kept
		ask(i)
	}
	execute(t, conn, `INSERT INTO pglock.once_records (scope, id) SELECT 's', i FROM generate_series(1, 20000) AS i`)
	scans := func() int64 {
		if must.One[int](t, pool, "SELECT current_setting('server_version_num')::int") >= 150000 {
			execute(t, conn, "SELECT pg_stat_force_next_flush()")
		} else {
			execute(t, conn, "SELECT pg_sleep(1)") // statistics are flushed that often
		}
		return must.One[int64](t, pool, `SELECT sum(seq_tup_read)::int8 FROM pg_stat_user_tables
			WHERE schemaname = 'pglock' AND relname = 'once_records'`)
	}
	before := scans()
	for i := range 10 {
		ask(100 + i)
	}
	if read := scans() - before; read > 0 {
		t.Errorf("ten lookups read %d rows sequentially", read)
	}
}

// waitsIn asks whether a session of the database waits for a lock.
const waitsIn = `SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND datname = current_database())`
