package pglock_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// The role's timeouts end whatever takes long: statements, waits for locks, idle sessions. Sessions of all kinds
// outlive several of them, as control sessions of the same role show: mux sessions with and without locks, and wait
// sessions that wait or hold a lock.
func TestSettingsSessionsOfEveryKindOutliveTheTimeoutsOfTheRole(t *testing.T) {
	db := testenv.Database(t)
	role, err := pgx.ParseConfig(db.Role(t, "hasty"))
	if err != nil {
		t.Fatal(err)
	}
	admin := db.Connect(t)
	settings := []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout"}
	for _, setting := range settings {
		if _, err := admin.Exec(t.Context(), "alter role "+pgx.Identifier{role.User}.Sanitize()+" set "+setting+" = 1000"); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := pgxpool.ParseConfig(role.ConnString())
	if err != nil {
		t.Fatal(err)
	}
	l, err := pglock.NewWithConfig(cfg, pglock.WithApplicationName(faultsApplication))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeWithinAMinute(t, l) })

	keys := faultKeys(4)
	waited := holdOnWaitSessions(t, db, l, keys[:1])
	locks := append(waited, mustLock(t, l, keys[1]), mustLock(t, l, keys[2], pglock.Shared()))
	plainLock(t, admin, keys[3])
	waiter := lockLater(t, l, keys[3])
	db.WaitForWaiters(t, 1)
	sessions := sessionsOf(t, admin)

	outliveControls(t, role, keys[3])
	if now := sessionsOf(t, admin); !slices.Equal(now, sessions) {
		t.Errorf("the sessions are %v, and were %v", now, sessions)
	}
	for _, lock := range locks {
		if err := lock.Verify(minuteContext(t)); err != nil {
			t.Error(err)
		}
	}
	db.WaitForWaiters(t, 1)
	plainUnlock(t, admin, keys[3])
	for lock := range waiter {
		mustUnlock(t, lock)
	}
	for _, lock := range locks {
		mustUnlock(t, lock)
	}
	wantQuiet(t, db, l)
}

func sessionsOf(t *testing.T, conn *pgx.Conn) []int64 {
	t.Helper()
	return numbers(t, conn, `select pid::int8 from pg_stat_activity
		where datname = current_database() and application_name like $1 order by pid`, faultsApplications)
}

// outliveControls waits until the role's timeouts have ended a wait, and then the session, which is idle.
func outliveControls(t *testing.T, role *pgx.ConnConfig, held pglock.Key) {
	t.Helper()
	control, err := pgx.ConnectConfig(t.Context(), role)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.Exec(t.Context(), "select pg_advisory_lock($1)", held.Int64()); err == nil {
		t.Error("the control's wait was not ended, so this test shows nothing")
	}
	if err := control.PgConn().WaitForNotification(t.Context()); err == nil {
		t.Error("the control's idle session was not ended, so this test shows nothing")
	}
}
