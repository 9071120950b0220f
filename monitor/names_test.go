package monitor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
)

func TestNamesRegisteredNamesAreShown(t *testing.T) {
	db := testenv.Installed(t)
	// The names are sent as XML, which cannot contain some of these characters.
	names := []string{"invoice:42", "@home", "日本語/注文", "<a> & \"b\"", "tab\tbell\a\r\n end ", "@7/-42"}
	register(t, db, names...)
	holder := db.Connect(t)
	for _, name := range append(names, "unregistered") {
		execute(t, holder, lockNamed(name))
	}
	execute(t, holder, "SELECT pg_advisory_lock(7, -42)")

	for _, mode := range queryModes {
		s := take(t, poolIn(t, db, mode))
		requireServerState(t, db, s)
		if s.NamesMissing != "" {
			t.Errorf("%v: names are missing: %s", mode, s.NamesMissing)
		}
		for _, name := range names {
			key := pglock.NewKey(name)
			lock := find(t, s, key)
			read, err := pglock.ParseKey(lock.Key)
			if err != nil || read.Name() != name || !slices.Equal(lock.Names, []string{name}) {
				t.Errorf("%v: %q is shown as %q, names %q (%v)", mode, name, lock.Key, lock.Names, err)
			}
		}
		unregistered := pglock.NewKey("unregistered")
		if lock := find(t, s, unregistered); len(lock.Names) != 0 || lock.Key != fmt.Sprintf("@%d", unregistered.Int64()) {
			t.Errorf("%v: an unregistered name is shown as %q, names %q", mode, lock.Key, lock.Names)
		}
	}
}

func lockNamed(name string) string {
	return fmt.Sprintf("SELECT pg_advisory_lock(%d)", pglock.NewKey(name).Int64())
}

// No two names with one hash are known, so the table has a false one.
func TestNamesACollisionShowsAllNames(t *testing.T) {
	db := registered(t, "a")
	key := pglock.NewKey("a")
	execute(t, db.Pool(t), "ALTER TABLE pglock.names DROP CONSTRAINT names_key_is_of_name",
		fmt.Sprintf("INSERT INTO pglock.names (key, name) VALUES (%d, '@b')", key.Int64()))
	session(t, db, lockNamed("a"))
	lock := find(t, take(t, db.Pool(t)), key)
	if lock.Key != "@@b | a" || !slices.Equal(lock.Names, []string{"@b", "a"}) {
		t.Errorf("the collision is shown as %q, names %q", lock.Key, lock.Names)
	}
}

func TestNamesWithoutNamesTheSnapshotSaysWhy(t *testing.T) {
	watcher := func(t *testing.T, db *testenv.DB, grants ...string) pglock.DB {
		conn := connectAs(t, db.Role(t, "watcher"))
		for _, grant := range grants {
			execute(t, db.Pool(t), grant+quoted(conn.Config().User))
		}
		return conn
	}
	cases := []struct {
		name      string
		installed bool
		setUp     func(t *testing.T, db *testenv.DB) pglock.DB
		want      string
	}{
		{"no schema", false, func(t *testing.T, db *testenv.DB) pglock.DB {
			return db.Connect(t)
		}, "pglock migrate up"},
		{"no right to the schema", true, func(t *testing.T, db *testenv.DB) pglock.DB {
			return watcher(t, db)
		}, "GRANT USAGE ON SCHEMA pglock TO \"watcher_"},
		{"no right to the table", true, func(t *testing.T, db *testenv.DB) pglock.DB {
			return watcher(t, db, "GRANT USAGE ON SCHEMA pglock TO ")
		}, "GRANT SELECT ON pglock.names TO \"watcher_"},
		{"a right to the table only", true, func(t *testing.T, db *testenv.DB) pglock.DB {
			return watcher(t, db, "GRANT SELECT ON pglock.names TO ")
		}, "GRANT USAGE ON SCHEMA pglock TO \"watcher_"},
		{"a schema of another role", false, func(t *testing.T, db *testenv.DB) pglock.DB {
			return session(t, db, "CREATE SCHEMA pglock", "CREATE TABLE pglock.names (nickname text)")
		}, "was not created by pglock, so"},
		{"a schema of a role that is not trusted", false, func(t *testing.T, db *testenv.DB) pglock.DB {
			db.Tenant(t).Exec("CREATE SCHEMA pglock")
			return db.Connect(t)
		}, "was not created by pglock (schema pglock belongs to role \"tenant"},
		{"a changed table", true, func(t *testing.T, db *testenv.DB) pglock.DB {
			return session(t, db, "ALTER TABLE pglock.names RENAME key TO number")
		}, "key does not exist"},
		{"a locked table", true, func(t *testing.T, db *testenv.DB) pglock.DB {
			session(t, db, "BEGIN", "LOCK TABLE pglock.names")
			return db.Connect(t)
		}, "lock timeout"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			db := testenv.Database(t)
			if c.installed {
				db = registered(t, "job")
			}
			from := c.setUp(t, db)
			session(t, db, lockNamed("job"))
			s := take(t, from)
			requireServerState(t, db, s)
			if !strings.Contains(s.NamesMissing, c.want) {
				t.Errorf("the reason is %q, want one that contains %q", s.NamesMissing, c.want)
			}
			if lock := find(t, s, pglock.NewKey("job")); len(lock.Names) != 0 {
				t.Errorf("a lock has an unexpected name: %+v", lock)
			}
		})
	}
}

// lockSlot takes the first slot of a semaphore.
func lockSlot(key pglock.Key) string {
	slot := lockkeys.Semaphore(key.ID()).Key(1).Number
	return fmt.Sprintf("SELECT pg_advisory_lock(%d, %d)", int32(slot>>32), int32(slot))
}

// The names of semaphores that have no locks are not read, and those of the semaphore that came first count. The grants of the
// monitor's role allow reading names.
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
	s := take(t, watcher)
	if s.NamesMissing != "" || len(s.Locks) != 1 || s.Locks[0].Key != "export" {
		t.Errorf("the semaphore is shown as %+v: %s", s.Locks, s.NamesMissing)
	}
}
