package semaphore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/semaphore"
)

var txKey = pglock.NewKey("thumbnails")

func begin(t testing.TB, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func end(t testing.TB, txs ...pgx.Tx) {
	t.Helper()
	for _, tx := range txs {
		if err := tx.Rollback(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// throughPooler returns a pool of connections that go through a transaction pooler.
func throughPooler(t testing.TB, db *testenv.DB) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(testenv.PgBouncer(t, db, testenv.TransactionPooling))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 20
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func TestSemaphoreAcquireTxLimitsTransactions(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	for name, pool := range map[string]*pgxpool.Pool{"direct": db.Pool(t), "through a transaction pooler": throughPooler(t, db)} {
		t.Run(name, func(t *testing.T) {
			const n = 2
			var txs []pgx.Tx
			for range n + 1 {
				txs = append(txs, begin(t, pool))
			}
			for _, tx := range txs[:n] { // side by side
				if err := semaphore.AcquireTx(t.Context(), tx, txKey, n); err != nil {
					t.Fatal(err)
				}
			}
			if locks := db.AdvisoryLocks(t); len(locks) != n {
				t.Errorf("%d transactions hold %v", n, locks)
			}
			for _, maxWait := range []time.Duration{0, 30 * time.Millisecond} {
				err := semaphore.AcquireTx(t.Context(), txs[n], txKey, n, pglock.MaxWait(maxWait))
				wait := (*pglock.WaitError)(nil)
				if !errors.As(err, &wait) || !wait.Keys[0].Equal(txKey) || len(wait.Holders) != n || wait.Waited < maxWait {
					t.Errorf("one more, with MaxWait(%v): %v", maxWait, err)
				}
			}
			var one int
			if err := txs[n].QueryRow(t.Context(), "select 1").Scan(&one); err != nil {
				t.Errorf("the transaction cannot continue: %v", err)
			}
			got := make(chan error, 1)
			go func() { got <- semaphore.AcquireTx(t.Context(), txs[n], txKey, n) }()
			end(t, txs[0])
			if err := <-got; err != nil {
				t.Error(err)
			}
			end(t, txs[1:]...)
			if locks := db.AdvisoryLocks(t); len(locks) != 0 {
				t.Errorf("locks are left: %v", locks)
			}
		})
	}
}

// TestSemaphorePermitsOfBothKindsCountTogether also checks that a transaction does not overtake waiters in the line.
func TestSemaphorePermitsOfBothKindsCountTogether(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	pool := db.Pool(t)
	sem, err := semaphore.New(openLocker(t, db), txKey, 2)
	if err != nil {
		t.Fatal(err)
	}
	tx, other := begin(t, pool), begin(t, pool)
	defer end(t, other)
	if err := semaphore.AcquireTx(t.Context(), tx, txKey, 2); err != nil {
		t.Fatal(err)
	}
	permit, err := sem.TryAcquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sem.TryAcquire(t.Context()); !errors.Is(err, pglock.ErrNotAcquired) {
		t.Errorf("a third permit: %v", err)
	}
	if err := permit.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	heavy := make(chan *semaphore.Permit, 1)
	go func() {
		p, err := sem.AcquireN(t.Context(), 2)
		if err != nil {
			t.Error(err)
		}
		heavy <- p
	}()
	testenv.WaitUntil(t, "the heavy one has collected a slot at the gate", func() bool { return len(db.AdvisoryLocks(t)) == 3 })
	err = semaphore.AcquireTx(t.Context(), other, txKey, 3, pglock.MaxWait(20*time.Millisecond)) // there is a third slot
	if !errors.Is(err, pglock.ErrNotAcquired) {
		t.Errorf("past the line: %v", err)
	}
	end(t, tx)
	if p := <-heavy; p != nil {
		if err := p.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := semaphore.AcquireTx(t.Context(), other, txKey, 2); err != nil {
		t.Error(err)
	}
}

// TestSemaphoreAcquireTxLeavesNothing interrupts the statement by cancels, timeouts, kills and rollbacks at any moment,
// on connections that stay open, so that a lock of the session would be seen. It continues until all have happened,
// however busy the machine is.
func TestSemaphoreAcquireTxLeavesNothing(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	pool := throughPooler(t, db)
	admin := db.Connect(t)
	makeHeld(t, admin)
	const n, workers, signals = 3, 8, 60
	var granted, failed atomic.Int32
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := holdSlot(t.Context(), pool, n, &granted); err != nil {
					failed.Add(1)
				}
			}
		})
	}
	tried := func() bool { return granted.Load() > 0 && failed.Load() > 0 && mostHeld(t, admin) >= n }
	for i, start := 0, time.Now(); i < signals || !tried() && time.Since(start) < time.Minute; i++ {
		before := granted.Load() + failed.Load()
		testenv.WaitUntil(t, "an attempt has ended", func() bool { return granted.Load()+failed.Load() > before })
		time.Sleep(rand.N(20 * time.Millisecond)) // so that the next ones are hit at any point
		signal := []string{"pg_cancel_backend", "pg_cancel_backend", "pg_terminate_backend"}[rand.IntN(3)]
		if _, err := admin.Exec(t.Context(), "select "+signal+"(pid) from (select pid from pg_stat_activity where "+
			"datname = current_database() and pid <> pg_backend_pid() order by random() limit 1) s"); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	wg.Wait()
	t.Logf("%d were granted, %d failed", granted.Load(), failed.Load())
	if granted.Load() == 0 || failed.Load() == 0 {
		t.Error("not every kind of interruption has happened")
	}
	wantAtMost(t, admin, n)
	testenv.WaitUntil(t, "nothing is left on connections that stay open", func() bool { return len(db.AdvisoryLocks(t)) == 0 })
	if conns := pool.Stat().TotalConns(); conns == 0 {
		t.Error("no connection has stayed open")
	}
}

// holdSlot holds a slot in a transaction for a moment. Its wait is ended by its context, by the server, or by MaxWait.
func holdSlot(ctx context.Context, pool *pgxpool.Pool, n int, granted *atomic.Int32) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		bounded, cancel := context.WithCancel(ctx)
		defer cancel()
		switch rand.IntN(3) {
		case 0:
			bounded, cancel = context.WithTimeout(ctx, rand.N(time.Millisecond<<rand.IntN(5)))
			defer cancel()
		case 1:
			if _, err := tx.Exec(ctx, "set local statement_timeout = 1"); err != nil {
				return err
			}
		}
		if err := semaphore.AcquireTx(bounded, tx, txKey, n, pglock.MaxWait(time.Second)); err != nil {
			return err
		}
		granted.Add(1)
		if _, err := tx.Exec(ctx, "set local statement_timeout = 0"); err != nil {
			return err
		}
		return hold(ctx, tx, 1)
	})
}

func TestSemaphoreAcquireTxReportsToItsObserver(t *testing.T) {
	pool := testenv.Database(t).Pool(t)
	var seen []pglock.TxLockedInfo
	observed := pglock.WithObserver(&pglock.Observer{TxLocked: func(_ context.Context, e pglock.TxLockedInfo) { seen = append(seen, e) }})
	first, second := begin(t, pool), begin(t, pool)
	defer end(t, first)
	defer end(t, second)
	if err := semaphore.AcquireTx(t.Context(), first, txKey, 1, observed); err != nil {
		t.Fatal(err)
	}
	refused := semaphore.AcquireTx(t.Context(), second, txKey, 1, observed, pglock.MaxWait(0))
	if len(seen) != 2 || seen[0].Err != nil || seen[0].Try || seen[1].Err != refused || !seen[1].Try ||
		!errors.Is(refused, pglock.ErrNotAcquired) || seen[1].Use.Kind != pglock.UsePermit || !seen[1].Keys[0].Equal(txKey) {
		t.Errorf("the Observer learned of %+v", seen)
	}
}

func TestSemaphoreAcquireTxRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	pool := db.Pool(t)
	tx := begin(t, pool)
	defer end(t, tx)
	for name, err := range map[string]error{
		"zero permits":     semaphore.AcquireTx(t.Context(), tx, txKey, 0),
		"too many permits": semaphore.AcquireTx(t.Context(), tx, txKey, semaphore.MaxPermits+1),
		"the zero Key":     semaphore.AcquireTx(t.Context(), tx, pglock.Key{}, 1),
		//pglock:allow it is to be refused
		"Shared":             semaphore.AcquireTx(t.Context(), tx, txKey, 1, pglock.Shared()),
		"a nil option":       semaphore.AcquireTx(t.Context(), tx, txKey, 1, nil),
		"a nil transaction":  semaphore.AcquireTx(t.Context(), nil, txKey, 1),
		"a negative MaxWait": semaphore.AcquireTx(t.Context(), tx, txKey, 1, pglock.MaxWait(-1)),
		"a long name":        semaphore.AcquireTx(t.Context(), tx, pglock.NewKey(strings.Repeat("x", pglock.MaxName+1)), 1),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	stale, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer end(t, stale)
	if err := semaphore.AcquireTx(t.Context(), stale, txKey, 1); !errors.Is(err, pglock.ErrStaleSnapshot) {
		t.Errorf("REPEATABLE READ: %v", err)
	}
	if err := semaphore.AcquireTx(t.Context(), stale, txKey, 1, pglock.AllowStaleSnapshot()); err != nil {
		t.Error(err)
	}
	again := semaphore.AcquireTx(t.Context(), stale, txKey, 1, pglock.AllowStaleSnapshot())
	if again != nil || len(db.AdvisoryLocks(t)) != 1 {
		t.Errorf("a second time in one transaction: %v, %v", again, db.AdvisoryLocks(t))
	}
	ended := begin(t, pool)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err = semaphore.AcquireTx(ctx, ended, txKey, 1)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, pglock.ErrNotAcquired) {
		t.Errorf("a wait that its context ended: %v", err)
	}
	if err := ended.Rollback(t.Context()); err != nil && !ended.Conn().IsClosed() { // a statement was on its way
		t.Error(err)
	}
}
