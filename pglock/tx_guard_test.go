package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// txAllForms are txForms, with MaxWait too, and TryLockTx.
var txAllForms = func() (forms []txForm) {
	for _, form := range txForms {
		bounded := form
		bounded.name += " with MaxWait"
		bounded.lock = func(ctx context.Context, tx pgx.Tx, key pglock.Key, opts ...pglock.TxOption) error {
			return form.lock(ctx, tx, key, append(slices.Clone(opts), pglock.MaxWait(txLong))...)
		}
		forms = append(forms, form, bounded)
	}
	return append(forms, txForm{name: "TryLockTx", lock: pglock.TryLockTx})
}()

func TestTxATransactionThatReadsOldDataIsRefused(t *testing.T) {
	t.Parallel()
	db, key := testenv.Database(t), pglock.PairKey(1, -1)
	conn := db.Connect(t)
	for _, isolation := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		for _, form := range txAllForms {
			t.Run(fmt.Sprintf("%s in %s", form.name, isolation), func(t *testing.T) {
				tx := txBegin(t, conn, pgx.TxOptions{IsoLevel: isolation})

				err := form.lock(t.Context(), tx, key)

				if !errors.Is(err, pglock.ErrStaleSnapshot) || !strings.Contains(err.Error(), key.String()) {
					t.Errorf("the error is %v", err)
				}
				txWantLocks(t, db)
				if form.batch {
					tx = txBeginAgain(t, conn, tx, isolation)
				}
				txWantUsable(t, tx)
				txCheck(t, form.lock(t.Context(), tx, key, pglock.AllowStaleSnapshot()))
				txWantLocks(t, db, "@1/-1 exclusive")
				txCheck(t, tx.Rollback(t.Context()))
			})
		}
	}
}

func txBeginAgain(t *testing.T, conn *pgx.Conn, tx pgx.Tx, isolation pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	txCheck(t, tx.Rollback(t.Context()))
	return txBegin(t, conn, pgx.TxOptions{IsoLevel: isolation})
}

// TestTxNothingThatAUserCanSetDisablesTheGuard tries settings, and objects that hide PostgreSQL's own.
func TestTxNothingThatAUserCanSetDisablesTheGuard(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	admin := db.Connect(t)
	for _, impossible := range []string{
		`SET pglock_stale_snapshot = '1'`,
		`SET "pglock_stale_snapshot" = '1'`,
		`SELECT set_config('pglock_stale_snapshot', '1', false)`,
		`ALTER ROLE CURRENT_USER SET pglock_stale_snapshot = '1'`,
		`ALTER DATABASE ` + db.Name() + ` SET pglock_stale_snapshot = '1'`,
		`ALTER SYSTEM SET pglock_stale_snapshot = '1'`,
	} {
		if _, err := admin.Exec(t.Context(), impossible); err == nil {
			t.Errorf("PostgreSQL accepts %s", impossible)
		}
	}
	txExec(t, admin, `
		CREATE SCHEMA hostile;
		CREATE FUNCTION hostile.current_setting(text) RETURNS text LANGUAGE sql AS $$ SELECT 'read committed' $$;
		CREATE FUNCTION hostile.starts_with(text, text) RETURNS bool LANGUAGE sql AS $$ SELECT true $$;
		CREATE FUNCTION hostile.pg_is_in_recovery() RETURNS bool LANGUAGE sql AS $$ SELECT false $$;
		CREATE FUNCTION hostile.none(text, text) RETURNS text LANGUAGE sql AS $$ SELECT NULL $$;
		CREATE AGGREGATE hostile.max(text) (SFUNC = hostile.none, STYPE = text);
		CREATE FUNCTION hostile.no(text, text) RETURNS bool LANGUAGE sql AS $$ SELECT false $$;
		CREATE OPERATOR hostile.= (LEFTARG = text, RIGHTARG = text, FUNCTION = hostile.no)`)
	for _, setting := range []string{
		`SET pglock.stale_snapshot = '1'`,
		`SET pglock.allow_stale = 'true'`,
		`SET pglock.outcome = '0'`,
		`SET default_transaction_isolation = 'read committed'`,
		`SET search_path = hostile, pg_catalog`,
	} {
		for _, form := range txAllForms {
			t.Run(fmt.Sprintf("%s after %s", form.name, setting), func(t *testing.T) {
				conn := db.Connect(t)
				txExec(t, conn, setting)
				tx := txBegin(t, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
				err := form.lock(t.Context(), tx, pglock.NewKey("a"))
				if !errors.Is(err, pglock.ErrStaleSnapshot) {
					t.Errorf("the error is %v", err)
				}
				txWantLocks(t, db)
			})
		}
	}
}

func TestTxAHotStandbyIsRefused(t *testing.T) {
	t.Parallel()
	primary := testenv.NewServer(t, nil)
	db := testenv.On(t, primary)
	standby := txStandby(t, primary)
	conn := txConnect(t, standby.ConnString(db.Name()), nil)
	for _, form := range txAllForms {
		t.Run(form.name, func(t *testing.T) {
			tx := txBegin(t, conn)
			if err := form.lock(t.Context(), tx, pglock.Int64Key(5)); !errors.Is(err, pglock.ErrStandby) {
				t.Errorf("the error is %v", err)
			}
			if form.batch {
				tx = txBeginAgain(t, conn, tx, "")
			}
			txWantAdvisoryLocks(t, tx, 0)
			txCheck(t, form.lock(t.Context(), tx, pglock.Int64Key(5), pglock.AllowStandby()))
			txWantAdvisoryLocks(t, tx, 1)
			txCheck(t, tx.Rollback(t.Context()))
		})
	}
	t.Run("Lock", func(t *testing.T) {
		config := trustConfig(t, standby.ConnString(db.Name()))
		l, _ := openConfig(t, config)
		if _, err := l.Lock(t.Context(), pglock.NewKey("k")); !errors.Is(err, pglock.ErrStandby) {
			t.Errorf("the error is %v", err)
		}
		allowed, _ := openConfig(t, config, pglock.AllowStandby())
		mustUnlock(t, mustLock(t, allowed, pglock.NewKey("k")))
	})
}

// txStandby returns when the standby has all that its primary has.
func txStandby(t *testing.T, primary *pgserver.Server) *pgserver.Server {
	t.Helper()
	standby, err := primary.Standby(t.Context())
	txCheck(t, err)
	t.Cleanup(func() { txCheck(t, standby.Stop()) })
	var position string
	row := txConnect(t, primary.ConnString("postgres"), nil).QueryRow(t.Context(), "SELECT pg_current_wal_lsn()::text")
	txCheck(t, row.Scan(&position))
	conn := txConnect(t, standby.ConnString("postgres"), nil)
	testenv.WaitUntil(t, "the standby has replayed "+position, func() (replayed bool) {
		query := "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn"
		txCheck(t, conn.QueryRow(t.Context(), query, position).Scan(&replayed))
		return replayed
	})
	return standby
}

// txWantAdvisoryLocks asks tx itself: testenv's oracle is the primary.
func txWantAdvisoryLocks(t *testing.T, tx pgx.Tx, want int) {
	t.Helper()
	var n int
	query := "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
	txCheck(t, tx.QueryRow(t.Context(), query).Scan(&n))
	if n != want {
		t.Errorf("%d locks are held on the standby, want %d", n, want)
	}
}
