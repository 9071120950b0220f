package once_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/once"
)

// keep is how long the tests keep records. They let time pass by calling age.
const keep = 6 * time.Hour

// age makes everything in the ring older by d.
func age(t *testing.T, pool *pgxpool.Pool, d time.Duration) {
	t.Helper()
	execute(t, pool, `UPDATE pglock.once_slots
		SET since = since - $1::interval, until = until - $1::interval, drained = drained - $1::interval`, d)
}

// turn makes the next partition the current one.
func turn(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	before := current(t, pool)
	age(t, pool, keep/2+time.Minute)
	must.Succeed(t, once.Prune(t.Context(), pool, keep))
	if now := current(t, pool); now != (before+1)%4 {
		t.Fatalf("the current partition is %d after %d", now, before)
	}
}

func current(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	return one[int](t, pool, "SELECT slot FROM pglock.once_slots WHERE since IS NOT NULL AND until IS NULL")
}

func TestOnceADuplicateIsFoundInEveryPartition(t *testing.T) {
	_, pool := installed(t)
	for i := range 3 { // the fourth is needed to forget the first
		must.Succeed(t, do(t, pool, "s", fmt.Sprint(i)))
		for j := range i + 1 {
			wantIs(t, do(t, pool, "s", fmt.Sprint(j)), pglock.ErrDone)
		}
		if i < 2 {
			turn(t, pool)
		}
	}
	if n := one[int](t, pool, "SELECT count(DISTINCT slot) FROM pglock.once_records"); n != 3 {
		t.Errorf("records are in %d partitions, want 3", n)
	}
}

// The first call writes into the current partition. Its duplicate looks when another one is current.
func TestOnceTwoAtAPartitionBoundaryAreNotBothFirst(t *testing.T) {
	db, pool := installed(t)
	first := begin(t, pool)
	must.Succeed(t, scope(t, "s").Tx(t.Context(), first, "1"))
	turn(t, pool)
	second := make(chan error, 1)
	go func() { second <- do(t, pool, "s", "1") }()
	db.WaitForWaiters(t, 1)
	turn(t, pool)
	commit(t, first)
	wantIs(t, <-second, pglock.ErrDone)
	must.Succeed(t, do(t, pool, "s", "2"))
	wantIs(t, do(t, pool, "s", "2"), pglock.ErrDone)
}

func TestOnceRecordsAreKeptForAsLongAsAskedAndThenForgotten(t *testing.T) {
	_, pool := installed(t)
	must.Succeed(t, do(t, pool, "s", "1"))
	turn(t, pool)
	must.Succeed(t, do(t, pool, "s", "2"))
	age(t, pool, keep-time.Hour)
	must.Succeed(t, once.Prune(t.Context(), pool, keep))
	wantIs(t, do(t, pool, "s", "1"), pglock.ErrDone)
	age(t, pool, time.Hour)
	must.Succeed(t, once.Prune(t.Context(), pool, keep))
	wantIs(t, do(t, pool, "s", "2"), pglock.ErrDone) // one turn younger
	must.Succeed(t, do(t, pool, "s", "1"))           // forgotten, so it is the first
	wantIs(t, do(t, pool, "s", "1"), pglock.ErrDone)
}

// The time for which a record is kept begins with its commit, however long its transaction was open before.
func TestOnceAnOpenTransactionHoldsUpTheForgettingOfWhatItRecorded(t *testing.T) {
	_, pool := installed(t)
	open := begin(t, pool)
	must.Succeed(t, scope(t, "s").Tx(t.Context(), open, "1"))
	turn(t, pool)
	age(t, pool, 2*keep)
	must.Succeed(t, once.Prune(t.Context(), pool, keep)) // its partition cannot be drained yet
	commit(t, open)
	must.Succeed(t, once.Prune(t.Context(), pool, keep))
	wantIs(t, do(t, pool, "s", "1"), pglock.ErrDone)
	age(t, pool, keep+time.Minute)
	must.Succeed(t, once.Prune(t.Context(), pool, keep))
	must.Succeed(t, do(t, pool, "s", "1"))
}

func TestOncePruneDoesNotHoldUpOthers(t *testing.T) {
	_, pool := installed(t)
	must.Succeed(t, do(t, pool, "s", "1"))
	turn(t, pool)
	age(t, pool, keep+time.Minute)
	open := begin(t, pool) // it has read all partitions, and stays open
	must.Succeed(t, scope(t, "s").Tx(t.Context(), open, "2"))
	pruned := make(chan error, 1)
	go func() { pruned <- once.Prune(bounded(t), pool, keep) }()
	for i := 0; ; i++ {
		select {
		case err := <-pruned:
			wantIs(t, err, pglock.ErrNotAcquired)
			commit(t, open)
			must.Succeed(t, once.Prune(t.Context(), pool, keep))
			must.Succeed(t, do(t, pool, "s", "1")) // forgotten
			return
		default:
			// With a Prune that waits, this would wait for the transaction that stays open.
			must.Succeed(t, do(t, pool, "s", fmt.Sprint("meanwhile ", i)))
		}
	}
}

func TestOnceAForgottenPruneIsNoError(t *testing.T) {
	_, pool := installed(t)
	age(t, pool, 100*keep)
	must.Succeed(t, do(t, pool, "s", "1"))
	must.Succeed(t, once.Prune(t.Context(), pool, keep))
	wantIs(t, do(t, pool, "s", "1"), pglock.ErrDone)
}

// While the oldest partition cannot be truncated the ring advances until it is full. Then the current partition stays
// current.
func TestOnceAFullRingGoesOn(t *testing.T) {
	_, pool := installed(t)
	reader := begin(t, pool)
	execute(t, reader, "LOCK TABLE pglock.once_records_0 IN ACCESS SHARE MODE")
	for i := range 2 {
		must.Succeed(t, do(t, pool, "s", fmt.Sprint(i)))
		turn(t, pool)
	}
	for range 2 {
		age(t, pool, keep/2+time.Minute)
		wantIs(t, once.Prune(bounded(t), pool, keep), pglock.ErrNotAcquired)
		if now := current(t, pool); now != 3 {
			t.Fatalf("the current partition is %d", now)
		}
	}
	must.Succeed(t, do(t, pool, "s", "in the last"))
	wantIs(t, do(t, pool, "s", "0"), pglock.ErrDone)
	must.Succeed(t, reader.Rollback(t.Context()))
	must.Succeed(t, once.Prune(t.Context(), pool, keep))
	if now := current(t, pool); now != 0 {
		t.Fatalf("the current partition is %d", now)
	}
	must.Succeed(t, do(t, pool, "s", "0"))
	wantIs(t, do(t, pool, "s", "in the last"), pglock.ErrDone)
}

func TestOncePrunesAtTheSameTimeLeaveOneCurrentPartition(t *testing.T) {
	_, pool := installed(t)
	for range 20 {
		age(t, pool, keep/2+time.Minute)
		errs := make(chan error)
		const prunes = 4
		for range prunes {
			go func() { errs <- once.Prune(bounded(t), pool, keep) }()
		}
		for range prunes {
			if err := <-errs; err != nil && !errors.Is(err, pglock.ErrNotAcquired) {
				t.Error(err)
			}
		}
		must.Succeed(t, do(t, pool, "s", fmt.Sprint(current(t, pool), time.Now().UnixNano())))
	}
}

// The lookups use the indexes even where the statistics say that the partitions are empty.
func TestOnceLooksUseTheIndexes(t *testing.T) {
	_, pool := installed(t)
	conn, err := pool.Acquire(t.Context())
	must.Succeed(t, err)
	defer conn.Release()
	execute(t, conn, "VACUUM ANALYZE pglock.once_records")
	ask := func(i int) {
		must.Succeed(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			return scope(t, "s").Tx(t.Context(), tx, fmt.Sprint("look ", i))
		}))
	}
	for i := range 10 { // until the plan is kept
		ask(i)
	}
	execute(t, conn, `INSERT INTO pglock.once_records (slot, scope, id, done_at)
		SELECT i % 4, 's', i, now() FROM generate_series(1, 20000) AS i`)
	scans := func() int64 {
		if one[int](t, pool, "SELECT current_setting('server_version_num')::int") >= 150000 {
			execute(t, conn, "SELECT pg_stat_force_next_flush()")
		} else {
			execute(t, conn, "SELECT pg_sleep(1)") // statistics are flushed that often
		}
		return one[int64](t, pool, `SELECT sum(seq_tup_read)::int8 FROM pg_stat_user_tables
			WHERE schemaname = 'pglock' AND relname LIKE 'once_records%'`)
	}
	before := scans()
	for i := range 10 {
		ask(100 + i)
	}
	if read := scans() - before; read > 0 {
		t.Errorf("ten lookups read %d rows sequentially", read)
	}
}
