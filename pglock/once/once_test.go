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
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/once"
)

func TestOnceTheFirstDoesItAndLaterOnesHearThatItIsDone(t *testing.T) {
	t.Parallel()
	_, pool := installed(t)
	must.Succeed(t, do(t, pool, "s", "1"))
	err := do(t, pool, "s", "1")
	wantIs(t, err, pglock.ErrDone)
	done := (*once.DoneError)(nil)
	if !errors.As(err, &done) || done.Scope != "s" || done.ID != "1" || time.Since(done.At).Abs() > time.Hour {
		t.Errorf("the error is %#v", err)
	}
	must.Succeed(t, do(t, pool, "s", "2"))
	must.Succeed(t, do(t, pool, "other", "1"))

	tx := begin(t, pool)
	wantIs(t, scope(t, "s").Tx(t.Context(), tx, "1"), pglock.ErrDone)
	must.Succeed(t, scope(t, "s").Tx(t.Context(), tx, "after that")) // the transaction can continue
	wantIs(t, scope(t, "s").Tx(t.Context(), tx, "after that"), pglock.ErrDone)
	commit(t, tx)
	wantIs(t, do(t, pool, "s", "after that"), pglock.ErrDone)
}

func TestOnceARollbackLeavesNothing(t *testing.T) {
	t.Parallel()
	_, pool := installed(t)
	tx := begin(t, pool)
	must.Succeed(t, scope(t, "s").Tx(t.Context(), tx, "whole"))
	must.Succeed(t, tx.Rollback(t.Context()))
	must.Succeed(t, do(t, pool, "s", "whole"))

	tx = begin(t, pool)
	savepoint, err := tx.Begin(t.Context())
	must.Succeed(t, err)
	must.Succeed(t, scope(t, "s").Tx(t.Context(), savepoint, "part"))
	must.Succeed(t, savepoint.Rollback(t.Context()))
	must.Succeed(t, do(t, pool, "s", "part")) // while tx is open: the lock is gone as well
	commit(t, tx)
}

func TestOnceOtherContentsAreAMismatch(t *testing.T) {
	t.Parallel()
	_, pool := installed(t)
	must.Succeed(t, doIn(t, pool, scope(t, "s").Matching([]byte("a")), "1"))
	wantIs(t, doIn(t, pool, scope(t, "s").Matching([]byte("b")), "1"), once.ErrMismatch)
	wantIs(t, doIn(t, pool, scope(t, "s").Matching([]byte("a")), "1"), pglock.ErrDone)
	wantIs(t, do(t, pool, "s", "1"), pglock.ErrDone)
	must.Succeed(t, do(t, pool, "s", "2"))
	wantIs(t, doIn(t, pool, scope(t, "s").Matching([]byte("a")), "2"), pglock.ErrDone)
}

func TestOnceADuplicateWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	db, pool := installed(t)
	for _, test := range []struct {
		name string
		end  func(pgx.Tx) error
		want error
	}{
		{"that commits", func(tx pgx.Tx) error { return tx.Commit(t.Context()) }, pglock.ErrDone},
		{"that rolls back", func(tx pgx.Tx) error { return tx.Rollback(t.Context()) }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			tx := begin(t, pool)
			must.Succeed(t, scope(t, "s").Tx(t.Context(), tx, test.name))
			second := make(chan error, 1)
			go func() { second <- do(t, pool, "s", test.name) }()
			db.WaitForWaiters(t, 1)
			must.Succeed(t, test.end(tx))
			if err := <-second; !errors.Is(err, test.want) {
				t.Errorf("the duplicate got %v, want %v", err, test.want)
			}
			wantIs(t, do(t, pool, "s", test.name), pglock.ErrDone)
		})
	}
}

func TestOnceMaxWaitNamesWhoIsAtIt(t *testing.T) {
	t.Parallel()
	_, pool := installed(t)
	first := begin(t, pool)
	must.Succeed(t, scope(t, "s").Tx(t.Context(), first, "1"))
	for _, wait := range []time.Duration{0, 20 * time.Millisecond} {
		tx := begin(t, pool)
		err := scope(t, "s").Tx(bounded(t), tx, "1", pglock.MaxWait(wait))
		wantIs(t, err, pglock.ErrNotAcquired)
		waited := (*pglock.WaitError)(nil)
		if !errors.As(err, &waited) || len(waited.Holders) != 1 ||
			waited.Holders[0].PID != int32(first.Conn().PgConn().PID()) || waited.Keys[0].String() != "once:s/1" {
			t.Errorf("the error is %+v", waited)
		}
		must.Succeed(t, scope(t, "s").Tx(bounded(t), tx, wait.String())) // the transaction can continue
		must.Succeed(t, tx.Rollback(t.Context()))
	}
}

func TestOnceACancelledWaitLeavesNothing(t *testing.T) {
	t.Parallel()
	db, pool := installed(t)
	first := begin(t, pool)
	must.Succeed(t, scope(t, "s").Tx(t.Context(), first, "1"))
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() {
		second <- pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return scope(t, "s").Tx(ctx, tx, "1") })
	}()
	db.WaitForWaiters(t, 1)
	cancel()
	wantIs(t, <-second, context.Canceled)
	must.Succeed(t, first.Rollback(t.Context()))
	must.Succeed(t, do(t, pool, "s", "1"))
}

func TestOnceRefusesSnapshotsThatAreOlderThanTheLock(t *testing.T) {
	t.Parallel()
	_, pool := installed(t)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
		must.Succeed(t, err)
		wantIs(t, scope(t, "s").Tx(t.Context(), tx, "1"), pglock.ErrStaleSnapshot)
		execute(t, tx, "SELECT 1") // it can continue
		must.Succeed(t, tx.Rollback(t.Context()))
	}
	must.Succeed(t, do(t, pool, "s", "1"))
}

type receipt struct {
	Number int
	Note   string
}

func TestOnceAResultIsReplayed(t *testing.T) {
	t.Parallel()
	_, pool := installed(t)
	runs := 0
	ask := func(id string, fail error, contents string) (got receipt, replayed bool, err error) {
		err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			got, replayed, err = once.Result(t.Context(), tx, scope(t, "s").Matching([]byte(contents)), id, func(pgx.Tx) (receipt, error) {
				runs++
				return receipt{runs, "日本語 \x00"}, fail
			})
			return err
		})
		return got, replayed, err
	}
	boom := errors.New("boom")
	_, _, err := ask("1", boom, "a")
	wantIs(t, err, boom)
	got, replayed, err := ask("1", nil, "a")
	must.Succeed(t, err)
	if want := (receipt{2, "日本語 \x00"}); replayed || got != want {
		t.Errorf("the first got %+v, replayed %v", got, replayed)
	}
	got, replayed, err = ask("1", nil, "a")
	must.Succeed(t, err)
	if want := (receipt{2, "日本語 \x00"}); !replayed || got != want || runs != 2 {
		t.Errorf("the second got %+v, replayed %v, after %d runs", got, replayed, runs)
	}
	_, _, err = ask("1", nil, "b")
	wantIs(t, err, once.ErrMismatch)

	must.Succeed(t, do(t, pool, "s", "without a result"))
	_, _, err = ask("without a result", nil, "a")
	wantIs(t, err, pglock.ErrDone)

	tx := begin(t, pool)
	_, _, err = once.Result(t.Context(), tx, scope(t, "s"), "1", func(pgx.Tx) (int, error) { return 0, nil })
	if err == nil || !strings.Contains(err.Error(), "read the recorded result") {
		t.Errorf("a result of another type: %v", err)
	}
	_, _, err = once.Result(t.Context(), tx, scope(t, "s"), "3", func(pgx.Tx) (func(), error) { return nil, nil })
	if err == nil || !strings.Contains(err.Error(), "record the result") {
		t.Errorf("a result that is not JSON: %v", err)
	}
}

func TestOnceAPanicRecordsNothing(t *testing.T) {
	t.Parallel()
	_, pool := installed(t)
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("the panic did not continue")
			}
		}()
		_ = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, _, err := once.Result(t.Context(), tx, scope(t, "s"), "1", func(pgx.Tx) (int, error) { panic("boom") })
			return err
		})
	}()
	must.Succeed(t, do(t, pool, "s", "1"))
}

func TestOnceMisuseIsAnError(t *testing.T) {
	t.Parallel()
	_, pool := installed(t)
	tx := begin(t, pool)
	for name, test := range map[string]struct {
		id   string
		opt  pglock.TxOption
		want string
	}{
		"empty id":       {"", pglock.MaxWait(0), "empty"},
		"long id":        {strings.Repeat("a", 1025), pglock.MaxWait(0), "1025 bytes"},
		"NUL":            {"\x00", pglock.MaxWait(0), "NUL"},
		"invalid UTF-8":  {"\xff", pglock.MaxWait(0), "UTF-8"},
		"negative":       {"b", pglock.MaxWait(-1), "negative"},
		"shared":         {"b", pglock.Shared(), "MaxWait and WithObserver"},
		"a snapshot":     {"b", pglock.AllowStaleSnapshot(), "MaxWait and WithObserver"},
		"a nil option":   {"b", nil, "nil"},
		"largest, valid": {strings.Repeat("語", 341), pglock.MaxWait(0), ""},
	} {
		err := scope(t, strings.Repeat("a", 256)).Tx(t.Context(), tx, test.id, test.opt)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for want, key := range map[string]pglock.Key{
		"invalid lock key": {}, "257 bytes": pglock.NewKey(strings.Repeat("a", 257)), "UTF-8": pglock.NewKey("\xff"),
	} {
		if _, err := once.New(key); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for _, opt := range []once.Option{nil, once.WithTrustedOwner("")} {
		if _, err := once.New(pglock.NewKey("a"), opt); err == nil {
			t.Error("an invalid Option is no error")
		}
	}
	if err := scope(t, "a").Tx(t.Context(), nil, "b"); err == nil {
		t.Error("a nil transaction is no error")
	}
	if _, _, err := once.Result[int](t.Context(), tx, scope(t, "a"), "b", nil); err == nil {
		t.Error("a nil function is no error")
	}
	if err := once.Prune(t.Context(), nil, time.Hour); err == nil {
		t.Error("Prune takes nil")
	}
	if err := once.Prune(t.Context(), pool, 0); err == nil {
		t.Error("Prune keeps nothing")
	}
}

func TestOnceNeedsNoMoreThanTheGrants(t *testing.T) {
	t.Parallel()
	db, owner := installed(t)
	pool := func(prefix string, grants func(string) string) *pgxpool.Pool {
		pool, err := pgxpool.New(t.Context(), db.Role(t, prefix))
		must.Succeed(t, err)
		t.Cleanup(pool.Close)
		execute(t, owner, grants(pool.Config().ConnConfig.User))
		return pool
	}
	locker, pruner := pool("pglock_locker", migrations.LockerGrants), pool("pglock_pruner", func(role string) string {
		return migrations.WatcherGrants(role) + "GRANT EXECUTE ON FUNCTION pglock.once_prune TO " + role
	})
	must.Succeed(t, do(t, locker, "s", "1"))
	wantIs(t, do(t, locker, "s", "1"), pglock.ErrDone)
	must.Succeed(t, once.Prune(t.Context(), pruner, time.Hour))
	if err := once.Prune(t.Context(), locker, time.Hour); err == nil || !strings.Contains(err.Error(), "migrate print") {
		t.Errorf("a locker prunes: %v", err)
	}
}

func TestOnceWorksThroughATransactionPooler(t *testing.T) {
	t.Parallel()
	db, _ := installed(t)
	pool, err := pgxpool.New(t.Context(), testenv.PgBouncer(t, db, testenv.TransactionPooling))
	must.Succeed(t, err)
	t.Cleanup(pool.Close)
	must.Succeed(t, do(t, pool, "s", "1"))
	wantIs(t, do(t, pool, "s", "1"), pglock.ErrDone)
}

func TestOnceTheObserverLearnsOfEachCall(t *testing.T) {
	t.Parallel()
	_, pool := installed(t)
	var seen []pglock.Event
	observed := pglock.WithObserver(func(_ context.Context, e pglock.Event) { seen = append(seen, e) })
	must.Succeed(t, do(t, pool, "s", "1", observed))
	wantIs(t, do(t, pool, "s", "1", observed), pglock.ErrNotAcquired) // as every no
	boom := errors.New("boom")
	wantIs(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, _, err := once.Result(t.Context(), tx, scope(t, "s"), "2", func(pgx.Tx) (int, error) { return 0, boom }, observed)
		return err
	}), boom)
	if len(seen) != 3 || seen[0].Err != nil || !errors.Is(seen[1].Err, pglock.ErrDone) || !errors.Is(seen[2].Err, boom) ||
		seen[0].Use.Kind != pglock.UseOnce || seen[0].ID != "1" || seen[0].Ran || !seen[2].Ran {
		t.Errorf("the Observer learned of %+v", seen)
	}
}
