package pglock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

type tagsKey struct{}

// tagged returns a Locker whose waits show the tags in their contexts.
func tagged(t *testing.T, db *testenv.DB) *pglock.Locker {
	return openLocker(t, db, pglock.WithSQLComments(func(ctx context.Context) map[string]string {
		tags, _ := ctx.Value(tagsKey{}).(map[string]string)
		return tags
	}))
}

// seenUntil takes snapshots until a lock of the database is as wanted.
func seenUntil(t *testing.T, db *testenv.DB, wanted func(monitor.Lock) bool) monitor.Lock {
	t.Helper()
	for snapshot, err := range monitor.Watch(minuteContext(t), db.Pool(t), 10*time.Millisecond) {
		if err != nil {
			t.Fatal(err)
		}
		for _, lock := range snapshot.Locks {
			if lock.Database == db.Name() && wanted(lock) {
				return lock
			}
		}
	}
	t.Fatal("the lock never became as wanted")
	return monitor.Lock{}
}

func TestTagsAWaitSaysWhichCodeWaits(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	key := pglock.NewKey("invoice:42")
	first, second := openLocker(t, db), tagged(t, db)
	held := mustLock(t, first, key)

	ctx := context.WithValue(minuteContext(t), tagsKey{}, map[string]string{
		"controller": "invoices", "action": "pay it's /*now*/", "traceparent": "00-ab-cd-01",
		"token": "forged", "more": "forged", "bad name'*/": "x", "nul": "a\x00b", "huge": strings.Repeat("é*/", 1<<18),
	})
	granted := make(chan *pglock.Lock, 1)
	go func() {
		lock, err := second.Lock(ctx, key, pglock.WithToken("t'1"))
		if err != nil {
			t.Error(err)
		}
		granted <- lock
	}()
	lock := seenUntil(t, db, func(l monitor.Lock) bool { return len(l.Waiters) == 1 })
	if lock.Key != "invoice:42" {
		t.Errorf("the lock is shown as %q", lock.Key)
	}
	query := lock.Waiters[0].Query
	if !strings.HasSuffix(query, "CALL pg_temp.pglock_wait()\n") {
		t.Errorf("the statement is not shown whole: %q", query)
	}
	tags := monitor.QueryTags(query)
	for name, want := range map[string]string{
		"key": "invoice:42", "token": "t'1", "controller": "invoices", "action": "pay it's /*now*/", "traceparent": "00-ab-cd-01",
		"nul": "a\x00b", "more": "", "bad name'*/": "",
	} {
		if tags[name] != want {
			t.Errorf("tag %s is %q, want %q", name, tags[name], want)
		}
	}

	mustUnlock(t, held)
	mustUnlock(t, <-granted)
}

// A monitor that is started later shows the holder's code too, since later statements of the session have the comment.
func TestTagsASessionSaysWhichCodeItsLockIsFor(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	l := tagged(t, db)
	conn := db.Connect(t)
	key := pglock.NewKey("k")
	wait := func(job string) *pglock.Lock {
		plainLock(t, conn, key)
		granted := make(chan *pglock.Lock, 1)
		go func() {
			lock, err := l.Lock(context.WithValue(minuteContext(t), tagsKey{}, map[string]string{"job": job}), key)
			if err != nil {
				t.Error(err)
			}
			granted <- lock
		}()
		db.WaitForWaiters(t, 1)
		plainUnlock(t, conn, key)
		return <-granted
	}
	statement := func() (query string) {
		if err := conn.QueryRow(t.Context(), `select query from pg_stat_activity join pg_locks using (pid)
			where locktype = 'advisory' and granted and datname = current_database()`).Scan(&query); err != nil {
			t.Fatal(err)
		}
		return query
	}
	for _, job := range []string{"one", "two"} {
		lock := wait(job)
		if err := lock.Verify(t.Context()); err != nil {
			t.Fatal(err)
		}
		if query := statement(); monitor.QueryTags(query)["job"] != job {
			t.Errorf("while %q holds the lock its session says %q", job, query)
		}
		mustUnlock(t, lock)
	}
	if _, err := l.Holders(t.Context(), key); err != nil { // on the session that waited
		t.Fatal(err)
	}
	if n := number(t, conn, `select count(*) from pg_stat_activity where datname = current_database() and query like '%/*key=%'
		and pid <> pg_backend_pid()`); n != 0 {
		t.Errorf("%d sessions still say which code had a lock", n)
	}
}

func TestTagsAPanicOfTheTagsLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	db := testenv.Database(t)
	panics := true
	l := openLocker(t, db, pglock.WithSQLComments(func(context.Context) map[string]string {
		if panics {
			panic("tags")
		}
		return nil
	}))
	conn := db.Connect(t)
	key := pglock.NewKey("k")
	plainLock(t, conn, key)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic does not reach the caller")
			}
		}()
		_, _ = l.Lock(minuteContext(t), key)
	}()
	panics = false
	granted := lockLater(t, l, key)
	db.WaitForWaiters(t, 1)
	plainUnlock(t, conn, key)
	mustUnlock(t, <-granted)
}

// The slices of a role that may not make temporary objects have the comment too, and their parameters are not taken
// for parts of it.
func TestTagsAWaitInSlicesSaysWhichCodeWaits(t *testing.T) {
	t.Parallel()
	const hostile = `$1 $2 '$3' \ -- ; drop`
	db := testenv.Database(t)
	conn := db.Connect(t)
	l := openWithoutTemp(t, db, pglock.WithSQLComments(func(context.Context) map[string]string {
		return map[string]string{"action": hostile}
	}))
	key := pglock.NewKey("k")
	plainLock(t, conn, key)
	granted := lockLater(t, l, key)
	db.WaitForWaiters(t, 1)
	var query string
	if err := conn.QueryRow(t.Context(), `select query from pg_stat_activity join pg_locks using (pid)
		where locktype = 'advisory' and not granted and datname = current_database()`).Scan(&query); err != nil {
		t.Fatal(err)
	}
	if action := monitor.QueryTags(query)["action"]; action != hostile || strings.Contains(query, "CALL") {
		t.Errorf("the slice says %q: %q", action, query)
	}
	plainUnlock(t, conn, key)
	mustUnlock(t, <-granted)
}

func TestTagsSQLCommentsAreForPostgreSQLOnly(t *testing.T) {
	t.Parallel()
	other := struct{ driver.Backend }{}
	_, err := pglock.NewWithBackend(other, pglock.WithSQLComments(nil))
	if !errors.Is(err, pglock.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}
