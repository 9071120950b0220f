package once_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
	"github.com/pglock-toolkit/pglock/pglock/once"
)

func TestOnceTheFirstDoesItAndLaterOnesHearThatItIsDone(t *testing.T) {
	_, pool := installed(t)
	must(t, do(t, pool, "s", "1"))
	err := do(t, pool, "s", "1")
	wantIs(t, err, once.ErrDone)
	done := (*once.DoneError)(nil)
	if !errors.As(err, &done) || done.Scope != "s" || done.ID != "1" || time.Since(done.At).Abs() > time.Hour {
		t.Errorf("the error is %#v", err)
	}
	must(t, do(t, pool, "s", "2"))
	must(t, do(t, pool, "other", "1"))

	tx := begin(t, pool)
	wantIs(t, once.Tx(t.Context(), tx, "s", "1"), once.ErrDone)
	must(t, once.Tx(t.Context(), tx, "s", "after that")) // the transaction can continue
	wantIs(t, once.Tx(t.Context(), tx, "s", "after that"), once.ErrDone)
	commit(t, tx)
	wantIs(t, do(t, pool, "s", "after that"), once.ErrDone)
}

func TestOnceARollbackLeavesNothing(t *testing.T) {
	_, pool := installed(t)
	tx := begin(t, pool)
	must(t, once.Tx(t.Context(), tx, "s", "whole"))
	must(t, tx.Rollback(t.Context()))
	must(t, do(t, pool, "s", "whole"))

	tx = begin(t, pool)
	savepoint, err := tx.Begin(t.Context())
	must(t, err)
	must(t, once.Tx(t.Context(), savepoint, "s", "part"))
	must(t, savepoint.Rollback(t.Context()))
	must(t, do(t, pool, "s", "part")) // while tx is open: the lock is gone as well
	commit(t, tx)
}

func TestOnceOtherContentsAreAMismatch(t *testing.T) {
	_, pool := installed(t)
	must(t, do(t, pool, "s", "1", once.Fingerprint([]byte("a"))))
	wantIs(t, do(t, pool, "s", "1", once.Fingerprint([]byte("b"))), once.ErrMismatch)
	wantIs(t, do(t, pool, "s", "1", once.Fingerprint([]byte("a"))), once.ErrDone)
	wantIs(t, do(t, pool, "s", "1"), once.ErrDone)
	must(t, do(t, pool, "s", "2"))
	wantIs(t, do(t, pool, "s", "2", once.Fingerprint([]byte("a"))), once.ErrDone)
}

func TestOnceADuplicateWaitsForTheFirst(t *testing.T) {
	db, pool := installed(t)
	for _, test := range []struct {
		name string
		end  func(pgx.Tx) error
		want error
	}{
		{"that commits", func(tx pgx.Tx) error { return tx.Commit(t.Context()) }, once.ErrDone},
		{"that rolls back", func(tx pgx.Tx) error { return tx.Rollback(t.Context()) }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			tx := begin(t, pool)
			must(t, once.Tx(t.Context(), tx, "s", test.name))
			second := make(chan error, 1)
			go func() { second <- do(t, pool, "s", test.name) }()
			db.WaitForWaiters(t, 1)
			must(t, test.end(tx))
			if err := <-second; !errors.Is(err, test.want) {
				t.Errorf("the duplicate got %v, want %v", err, test.want)
			}
			wantIs(t, do(t, pool, "s", test.name), once.ErrDone)
		})
	}
}

func TestOnceMaxWaitNamesWhoIsAtIt(t *testing.T) {
	_, pool := installed(t)
	first := begin(t, pool)
	must(t, once.Tx(t.Context(), first, "s", "1"))
	for _, wait := range []time.Duration{0, 20 * time.Millisecond} {
		tx := begin(t, pool)
		err := once.Tx(bounded(t), tx, "s", "1", once.MaxWait(wait))
		wantIs(t, err, pglock.ErrNotAcquired)
		waited := (*pglock.WaitError)(nil)
		if !errors.As(err, &waited) || len(waited.Holders) != 1 ||
			waited.Holders[0].PID != int32(first.Conn().PgConn().PID()) || waited.Key.String() != "once:s/1" {
			t.Errorf("the error is %+v", waited)
		}
		must(t, once.Tx(bounded(t), tx, "s", wait.String())) // the transaction can continue
		must(t, tx.Rollback(t.Context()))
	}
}

func TestOnceACancelledWaitLeavesNothing(t *testing.T) {
	db, pool := installed(t)
	first := begin(t, pool)
	must(t, once.Tx(t.Context(), first, "s", "1"))
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() {
		second <- pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return once.Tx(ctx, tx, "s", "1") })
	}()
	db.WaitForWaiters(t, 1)
	cancel()
	wantIs(t, <-second, context.Canceled)
	must(t, first.Rollback(t.Context()))
	must(t, do(t, pool, "s", "1"))
}

func TestOnceRefusesSnapshotsThatAreOlderThanTheLock(t *testing.T) {
	_, pool := installed(t)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
		must(t, err)
		wantIs(t, once.Tx(t.Context(), tx, "s", "1"), pglock.ErrStaleSnapshot)
		execute(t, tx, "SELECT 1") // it can continue
		must(t, tx.Rollback(t.Context()))
		tx, err = pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
		must(t, err)
		batch := &pgx.Batch{}
		once.Queue(batch, "s", "1")
		wantIs(t, tx.SendBatch(t.Context(), batch).Close(), pglock.ErrStaleSnapshot)
		must(t, tx.Rollback(t.Context()))
	}
	must(t, do(t, pool, "s", "1"))
}

type receipt struct {
	Number int
	Note   string
}

func TestOnceAResultIsReplayed(t *testing.T) {
	_, pool := installed(t)
	runs := 0
	ask := func(id string, fail error, opts ...once.Option) (got receipt, replayed bool, err error) {
		err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			got, replayed, err = once.Result(t.Context(), tx, "s", id, func(pgx.Tx) (receipt, error) {
				runs++
				return receipt{runs, "日本語 \x00"}, fail
			}, opts...)
			return err
		})
		return got, replayed, err
	}
	boom := errors.New("boom")
	_, _, err := ask("1", boom)
	wantIs(t, err, boom)
	got, replayed, err := ask("1", nil, once.Fingerprint([]byte("a")))
	must(t, err)
	if want := (receipt{2, "日本語 \x00"}); replayed || got != want {
		t.Errorf("the first got %+v, replayed %v", got, replayed)
	}
	got, replayed, err = ask("1", nil, once.Fingerprint([]byte("a")))
	must(t, err)
	if want := (receipt{2, "日本語 \x00"}); !replayed || got != want || runs != 2 {
		t.Errorf("the second got %+v, replayed %v, after %d runs", got, replayed, runs)
	}
	_, _, err = ask("1", nil, once.Fingerprint([]byte("b")))
	wantIs(t, err, once.ErrMismatch)

	must(t, do(t, pool, "s", "without a result"))
	_, _, err = ask("without a result", nil)
	wantIs(t, err, once.ErrDone)

	tx := begin(t, pool)
	_, _, err = once.Result(t.Context(), tx, "s", "1", func(pgx.Tx) (int, error) { return 0, nil })
	if err == nil || !strings.Contains(err.Error(), "read the recorded result") {
		t.Errorf("a result of another type: %v", err)
	}
	_, _, err = once.Result(t.Context(), tx, "s", "3", func(pgx.Tx) (func(), error) { return nil, nil })
	if err == nil || !strings.Contains(err.Error(), "record the result") {
		t.Errorf("a result that is not JSON: %v", err)
	}
}

func TestOnceAPanicRecordsNothing(t *testing.T) {
	_, pool := installed(t)
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("the panic did not continue")
			}
		}()
		_ = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, _, err := once.Result(t.Context(), tx, "s", "1", func(pgx.Tx) (int, error) { panic("boom") })
			return err
		})
	}()
	must(t, do(t, pool, "s", "1"))
}

func TestOnceQueueRidesInABatch(t *testing.T) {
	db, pool := installed(t)
	execute(t, pool, "CREATE TABLE effects (id text)")
	send := func(ctx context.Context, id string, opts ...once.Option) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			batch := &pgx.Batch{}
			batch.Queue("INSERT INTO effects VALUES ('before ' || $1)", id)
			once.Queue(batch, "s", id, opts...)
			batch.Queue("INSERT INTO effects VALUES ('after ' || $1)", id)
			return tx.SendBatch(ctx, batch).Close()
		})
	}
	must(t, send(t.Context(), "1", once.Fingerprint([]byte("a"))))
	err := send(t.Context(), "1", once.Fingerprint([]byte("a")))
	wantIs(t, err, once.ErrDone)
	if done := (*once.DoneError)(nil); !errors.As(err, &done) || time.Since(done.At).Abs() > time.Hour || done.ID != "1" {
		t.Errorf("the error is %#v", err)
	}
	wantIs(t, send(t.Context(), "1", once.Fingerprint([]byte("b"))), once.ErrMismatch)
	if n := one[int](t, pool, "SELECT count(*) FROM effects"); n != 2 {
		t.Errorf("%d effects, want 2", n)
	}

	tx := begin(t, pool)
	must(t, once.Tx(t.Context(), tx, "s", "2"))
	wantIs(t, send(t.Context(), "2", once.MaxWait(0)), pglock.ErrNotAcquired)
	second := make(chan error, 1)
	go func() { second <- send(t.Context(), "2") }()
	db.WaitForWaiters(t, 1)
	commit(t, tx)
	wantIs(t, <-second, once.ErrDone)
	if err := send(t.Context(), "3", once.MaxWait(time.Second)); err == nil || !strings.Contains(err.Error(), "MaxWait") {
		t.Errorf("MaxWait in a batch: %v", err)
	}
	if err := send(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("an empty id in a batch: %v", err)
	}
}

func TestOnceMisuseIsAnError(t *testing.T) {
	_, pool := installed(t)
	tx := begin(t, pool)
	for name, test := range map[string]struct {
		scope, id string
		opts      []once.Option
		want      string
	}{
		"empty scope":    {"", "a", nil, "empty"},
		"empty id":       {"a", "", nil, "empty"},
		"long scope":     {strings.Repeat("a", 257), "a", nil, "257 bytes"},
		"long id":        {"a", strings.Repeat("a", 1025), nil, "1025 bytes"},
		"NUL":            {"a", "\x00", nil, "NUL"},
		"invalid UTF-8":  {"a", "\xff", nil, "UTF-8"},
		"negative":       {"a", "b", []once.Option{once.MaxWait(-1)}, "negative"},
		"a nil option":   {"a", "b", []once.Option{nil}, "nil"},
		"largest, valid": {strings.Repeat("a", 256), strings.Repeat("語", 341), nil, ""},
	} {
		err := once.Tx(t.Context(), tx, test.scope, test.id, test.opts...)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := once.Tx(t.Context(), nil, "a", "b"); err == nil {
		t.Error("a nil transaction is no error")
	}
	if _, _, err := once.Result[int](t.Context(), tx, "a", "b", nil); err == nil {
		t.Error("a nil function is no error")
	}
	for _, db := range []once.DB{nil, tx} {
		if err := once.Prune(t.Context(), db, time.Hour); err == nil {
			t.Errorf("Prune takes %T", db)
		}
	}
	if err := once.Prune(t.Context(), pool, 0); err == nil {
		t.Error("Prune keeps nothing")
	}
}

func TestOnceWithoutTheSchemaTheErrorNamesTheCommand(t *testing.T) {
	pool := testenv.Database(t).Pool(t)
	for _, err := range []error{
		do(t, pool, "s", "1"),
		once.Prune(t.Context(), pool, time.Hour),
		pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			batch := &pgx.Batch{}
			once.Queue(batch, "s", "1")
			return once.TxError(tx.SendBatch(t.Context(), batch).Close()) // pgx prepares it, outside of the results
		}),
	} {
		wantIs(t, err, pglock.ErrSchemaMissing)
		if strings.Count(err.Error(), "pglock migrate up") != 1 {
			t.Errorf("the error does not name the command once: %v", err)
		}
	}
}

func TestOnceNeedsNoMoreThanTheGrants(t *testing.T) {
	db, owner := installed(t)
	pool := func(prefix string, grants func(string) string) *pgxpool.Pool {
		pool, err := pgxpool.New(t.Context(), db.Role(t, prefix))
		must(t, err)
		t.Cleanup(pool.Close)
		execute(t, owner, grants(pool.Config().ConnConfig.User))
		return pool
	}
	locker, pruner := pool("pglock_locker", migrations.LockerGrants), pool("pglock_pruner", migrations.PrunerGrants)
	must(t, do(t, locker, "s", "1"))
	wantIs(t, do(t, locker, "s", "1"), once.ErrDone)
	must(t, once.Prune(t.Context(), pruner, time.Hour))
	if err := once.Prune(t.Context(), locker, time.Hour); err == nil || !strings.Contains(err.Error(), "migrate print") {
		t.Errorf("a locker prunes: %v", err)
	}
}

func TestOnceWorksThroughATransactionPooler(t *testing.T) {
	db, _ := installed(t)
	pool, err := pgxpool.New(t.Context(), testenv.PgBouncer(t, db, testenv.TransactionPooling))
	must(t, err)
	t.Cleanup(pool.Close)
	must(t, do(t, pool, "s", "1"))
	wantIs(t, do(t, pool, "s", "1"), once.ErrDone)
}

func TestOnceInMemoryIsUnsupported(t *testing.T) {
	tx, err := locktest.NewServer().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantIs(t, once.Tx(t.Context(), tx, "s", "1"), pglock.ErrUnsupported)
	_, _, err = once.Result(t.Context(), tx, "s", "1", func(pgx.Tx) (int, error) { return 1, nil })
	wantIs(t, err, pglock.ErrUnsupported)
}
