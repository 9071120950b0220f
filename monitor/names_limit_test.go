package monitor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
)

// fewNames makes the names that are read for a snapshot shorter.
type fewNames struct {
	pglock.DB
	longest int64
}

func (f fewNames) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	for _, query := range batch.QueuedQueries {
		if query.SQL == monitordb.RegisteredNames || query.SQL == monitordb.RegisteredSemaphores {
			query.Arguments[1] = f.longest
		}
	}
	return f.DB.SendBatch(ctx, batch)
}

// A role that may record names and take locks makes as many long names as it likes.
func TestNamesThatAreLongCrowdOutNoOthers(t *testing.T) {
	db := registered(t, "job", "another job")
	var names, locks []string
	for i := range 20 {
		names = append(names, fmt.Sprint(strings.Repeat("x", 1000), i))
		locks = append(locks, lockNamed(names[i]))
	}
	app := connectAs(t, db.Role(t, "app"))
	execute(t, db.Connect(t), migrations.LockerGrants(app.Config().User))
	_, err := app.Exec(t.Context(), "SELECT pglock.register(VARIADIC $1)", names)
	must.Succeed(t, err)
	execute(t, app, locks...)
	session(t, db, lockNamed("job"), lockNamed("another job"))
	s := take(t, fewNames{db.Pool(t), 1000})
	for _, name := range []string{"job", "another job"} {
		if lock := find(t, s, pglock.NewKey(name)); !slices.Equal(lock.Names, []string{name}) {
			t.Errorf("%q has the names %q: %s", name, lock.Names, s.NamesMissing)
		}
	}
	if want := "20 names of more than "; !strings.Contains(s.NamesMissing, want) {
		t.Errorf("the reason is %q, not %q", s.NamesMissing, want)
	}
	if s := take(t, db.Pool(t)); s.NamesMissing != "" {
		t.Errorf("all names can be read: %s", s.NamesMissing)
	}
}

// lockSlot takes the first slot of a semaphore.
func lockSlot(key pglock.Key) string {
	slot := lockkeys.Semaphore(key.ID()).Key(1).Number
	return fmt.Sprintf("SELECT pg_advisory_lock(%d, %d)", int32(slot>>32), int32(slot))
}

// The same with names of semaphores: those that have no locks are not read, and those of the semaphore that came
// first count.
func TestNamesOfSemaphoresThatAreNotInUseAreNotRead(t *testing.T) {
	db := testenv.Installed(t)
	key := pglock.NewKey("export")
	register(t, db, lockkeys.SemaphoreName(key.String(), 3))
	admin := db.Connect(t)
	execute(t, admin, "SELECT pglock.register('pglock:semaphore:1:' || repeat('x', 900) || i) FROM generate_series(1, 500) AS i",
		"SELECT pglock.register('pglock:semaphore:' || i || ':export') FROM generate_series(4, 500) AS i")
	session(t, db, lockSlot(key))
	watcher := connectAs(t, db.Role(t, "watcher"))
	execute(t, admin, migrations.WatcherGrants(watcher.Config().User))
	s := take(t, fewNames{watcher, 100})
	if s.NamesMissing != "" || len(s.Locks) != 1 || s.Locks[0].Key != "export" {
		t.Errorf("the semaphore is shown as %+v: %s", s.Locks, s.NamesMissing)
	}
}

// A schema that an older version has installed cannot find semaphores.
func TestNamesOfKeysWithoutThoseOfSemaphores(t *testing.T) {
	db := registered(t, "job")
	execute(t, db.Connect(t), "DROP FUNCTION pglock.semaphore_of CASCADE")
	session(t, db, lockNamed("job"), lockSlot(pglock.NewKey("export")))
	s := take(t, db.Pool(t))
	if lock := find(t, s, pglock.NewKey("job")); lock.Key != "job" || !strings.Contains(s.NamesMissing, "names of semaphores") {
		t.Errorf("the lock is shown as %q: %s", lock.Key, s.NamesMissing)
	}
}
