package pglock_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// withSettings makes each new session of the database begin with the settings.
func withSettings(t *testing.T, db *testenv.DB, settings ...string) {
	t.Helper()
	conn := db.Connect(t)
	for _, setting := range settings {
		sql := fmt.Sprintf("ALTER DATABASE %s SET %s", pgx.Identifier{db.Name()}.Sanitize(), setting)
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// A transaction that is serializable, read-only and deferrable waits for all earlier transactions that write. The owner
// of a database can make these the defaults there.
func TestSettingsLockSessionsDoNotWaitForSerializableTransactions(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	writer := db.Connect(t)
	if _, err := writer.Exec(t.Context(), "BEGIN ISOLATION LEVEL SERIALIZABLE; CREATE TABLE written ()"); err != nil {
		t.Fatal(err)
	}
	withSettings(t, db, "default_transaction_isolation = serializable", "default_transaction_read_only = on",
		"default_transaction_deferrable = on")
	for _, attributes := range []string{"any", "primary"} { // for "primary" pgx asks the server what it is
		l, err := pglock.Open(minuteContext(t), db.ConnString()+"&target_session_attrs="+attributes, pglock.WithNames())
		if err != nil {
			t.Fatal(err)
		}
		lock := mustLock(t, l, pglock.NewKey("k"))
		if _, err := lock.Fence(minuteContext(t)); err != nil {
			t.Error(err)
		}
		mustUnlock(t, lock)
		if err := l.Close(minuteContext(t)); err != nil {
			t.Error(err)
		}
	}
}

// exit_on_error makes the server end a session at its first error.
func TestSettingsAnErrorOfTheServerDoesNotEndALockSession(t *testing.T) {
	t.Parallel()
	db := testenv.Installed(t)
	withSettings(t, db, "exit_on_error = on")
	if _, err := db.Connect(t).Exec(t.Context(), "ALTER SEQUENCE pglock.fence MAXVALUE 2; SELECT setval('pglock.fence', 2)"); err != nil {
		t.Fatal(err)
	}
	l := openLocker(t, db)
	first, second := mustLock(t, l, pglock.NewKey("first")), mustLock(t, l, pglock.NewKey("second"))
	if _, err := first.Fence(t.Context()); err == nil || !strings.Contains(err.Error(), "nextval") {
		t.Errorf("Fence of an exhausted sequence: %v", err)
	}
	if err := errors.Join(first.Err(), second.Err()); err != nil {
		t.Errorf("after an error of the server: %v", err)
	}
	mustUnlock(t, first)
	mustUnlock(t, second)
}

// The set-up waits for a lock on a catalog for longer than the database's statement_timeout.
func TestSettingsTheSetUpOfALockSessionOutlivesTheStatementTimeoutOfTheDatabase(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	upgrade, control := db.Connect(t), db.Connect(t)
	if _, err := upgrade.Exec(t.Context(), "BEGIN; LOCK TABLE pg_catalog.pg_settings"); err != nil {
		t.Fatal(err)
	}
	withSettings(t, db, "statement_timeout = 1000")
	opened := make(chan error, 1)
	go func() {
		l, err := pglock.Open(minuteContext(t), db.ConnString(), pglock.WithApplicationName(faultsApplication))
		if err == nil {
			err = l.Close(minuteContext(t))
		}
		opened <- err
	}()
	for number(t, control, `select count(*) from pg_locks join pg_stat_activity using (pid)
		where not granted and locktype = 'relation' and datname = current_database()`) == 0 {
		select {
		case err := <-opened:
			t.Fatalf("Open did not wait, so this test shows nothing: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	if _, err := db.Connect(t).Exec(t.Context(), "select pg_sleep(60)"); err == nil {
		t.Error("the control's statement was not ended, so this test shows nothing")
	}
	if _, err := upgrade.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Errorf("Open: %v", err)
	}
}
