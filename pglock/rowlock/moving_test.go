package rowlock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// The way from session locks to row locks that docs/rowlock.md describes: versions that run at the same time exclude each
// other. The old and the new one do not, and never run at the same time.
func TestMovingFromSessionsToRowsExcludesAtEachStep(t *testing.T) {
	t.Parallel()
	owner, db := installed(t)
	app := pooled(t, db)
	process := func() (sessions, rows *pglock.Locker) {
		sessions, err := pglock.New(owner)
		must.Succeed(t, err)
		t.Cleanup(func() { must.Succeed(t, sessions.Close(context.Background())) })
		return sessions, open(t, app)
	}
	sessions, rows := process()
	otherSessions, otherRows := process()
	before, between, after := only(sessions), both(sessions, rows), only(rows)
	otherBetween := both(otherSessions, otherRows)
	for name, versions := range map[string][2]version{
		"before and between": {before, otherBetween}, "between and before": {otherBetween, before},
		"between":           {between, otherBetween},
		"between and after": {otherBetween, after}, "after and between": {after, otherBetween},
	} {
		if !excludes(t, owner, versions[0], versions[1]) {
			t.Errorf("%s: two processes are inside", name)
		}
	}
	if excludes(t, owner, before, only(otherRows)) {
		t.Error("session locks and row locks exclude each other: the step between is not needed")
	}
}

// version is what one process does to run a section.
type version func(ctx context.Context, section func() error) error

func only(l *pglock.Locker) version {
	return func(ctx context.Context, section func() error) error {
		return l.Do(ctx, key, func(context.Context, *pglock.Lock) error { return section() })
	}
}

func both(sessions, rows *pglock.Locker) version {
	return func(ctx context.Context, section func() error) error {
		return only(sessions)(ctx, func() error { return only(rows)(ctx, section) })
	}
}

// excludes reports whether the second process waits while the first one is inside.
func excludes(t *testing.T, owner *pgxpool.Pool, first, second version) bool {
	t.Helper()
	errBoth := errors.New("both are inside")
	entered, leave := make(chan struct{}), make(chan struct{})
	left, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		left <- first(t.Context(), func() error {
			close(entered)
			select {
			case <-leave:
			case <-t.Context().Done():
			}
			return nil
		})
	}()
	select {
	case <-entered:
	case err := <-left:
		t.Fatalf("the first process: %v", err)
	}
	go func() {
		ended <- second(t.Context(), func() error {
			select {
			case <-leave:
				return nil
			default:
				return errBoth
			}
		})
	}()
	testenv.WaitUntil(t, "the second process waits or is inside", func() bool {
		var waits bool
		must.Succeed(t, owner.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
			WHERE d.datname = current_database() AND l.locktype = 'advisory' AND NOT l.granted)
			OR EXISTS (SELECT FROM pglock.row_locks WHERE NOT granted)`).Scan(&waits))
		return waits || len(ended) > 0
	})
	close(leave)
	must.Succeed(t, <-left)
	err := <-ended
	if !errors.Is(err, errBoth) {
		must.Succeed(t, err)
	}
	return err == nil
}
