package migrations_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

func TestRegisterRecordsEachNameOnce(t *testing.T) {
	t.Parallel()
	_, pool := installed(t)
	queries := lockdb.New(pool)
	longest := strings.Repeat("ü", 512) // 1024 bytes
	for _, test := range []struct {
		names []string
		added int64
	}{
		{[]string{"a", "", "日本語/注文", "a", longest}, 4},
		{[]string{"a", "b"}, 1},
		{[]string{"b", ""}, 0},
		{[]string{longest + "x", "c"}, 1},
		{[]string{}, 0},
	} {
		added, err := queries.RegisterNames(t.Context(), test.names)
		if err != nil || added != test.added {
			t.Errorf("registering %.60q added %d, %v; want %d", test.names, added, err, test.added)
		}
	}
	if added := must.One[int](t, pool, "SELECT pglock.register('d', NULL)"); added != 1 {
		t.Errorf("beside a NULL, %d names were added", added)
	}
	order := "日本語/注文"
	type row struct {
		Key  int64
		Name string
	}
	rows := all[row](t, pool, "SELECT key, name FROM pglock.names WHERE key = ANY ($1) ORDER BY key",
		[]int64{number("a"), number(order), number(longest + "x"), 42})
	want := []row{{Key: number(order), Name: order}, {Key: number("a"), Name: "a"}}
	if !slices.Equal(rows, want) {
		t.Errorf("pglock.names has %v; want %v", rows, want)
	}
}

func TestRegisterWritesNothingForNamesThatAreKnown(t *testing.T) {
	t.Parallel()
	db, _ := installed(t)
	conn := db.Connect(t)
	writes := func(names string) (wrote bool) {
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			execute(t, tx, "SELECT pglock.register("+names+")")
			wrote = must.One[bool](t, tx, "SELECT pg_current_xact_id_if_assigned() IS NOT NULL")
			return nil
		})
		must.Succeed(t, err)
		return wrote
	}
	if !writes("'a', 'b'") {
		t.Error("new names were not written")
	}
	if writes("'b', 'a'") {
		t.Error("known names took a transaction ID")
	}
	if !writes("'b', 'c'") {
		t.Error("a new name was not written")
	}
}

// Two sessions that register the same new names in different orders would deadlock.
func TestRegisterCannotDeadlockWithItself(t *testing.T) {
	t.Parallel()
	db, _ := installed(t)
	blocker, watcher := db.Connect(t), db.Connect(t)
	execute(t, blocker, "BEGIN; SELECT pglock.register('m')")

	results := make(chan error, 2)
	for _, names := range [][]string{{"a", "m", "z"}, {"z", "m", "a"}} {
		queries := lockdb.New(db.Connect(t))
		go func() {
			_, err := queries.RegisterNames(t.Context(), names)
			results <- err
		}()
	}
	testenv.WaitUntil(t, "two wait for a name that a third is registering, or for each other", func() bool {
		return must.One[int](t, watcher, `SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
			WHERE datname = current_database() AND locktype = 'transactionid' AND NOT granted`) == 2
	})
	execute(t, blocker, "COMMIT")
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

// The function finds what the locks of a semaphore have, for every key that a Locker can record.
func TestSemaphoreOfIsThePartOfTheKeyThatIsInTheLocks(t *testing.T) {
	t.Parallel()
	_, owner := installed(t)
	const sql = "SELECT coalesce(pglock.semaphore_of($1), -1)"
	for _, key := range []pglock.Key{
		pglock.NewKey("export"), pglock.NewKey("a:b\nc"), pglock.NewKey("@x"), pglock.NewKey("@@"), pglock.NewKey("@7"), pglock.NewKey("ä"),
		pglock.Int64Key(0), pglock.Int64Key(-1), pglock.Int64Key(1<<63 - 1), pglock.Int64Key(-1 << 63), pglock.Int64Key(1 << 36),
		pglock.PairKey(0, 7), pglock.PairKey(-1, -42), pglock.PairKey(1<<31-1, -1<<31),
	} {
		want := int64(lockkeys.Semaphore(key.ID()))
		var got int64
		err := owner.QueryRow(t.Context(), sql, lockkeys.SemaphoreName(key.String(), 12)).Scan(&got)
		if err != nil || got != want {
			t.Errorf("of %v: %d, %v; want %d", key, got, err, want)
		}
	}
	for _, name := range []string{"", "export", "pglock:semaphore:", "pglock:semaphore:x:a", "pglock:semaphore:1:@", "pglock:semaphore:1:@a",
		"pglock:semaphore:1:@9999999999999999999", "pglock:semaphore:1:@1/", "pglock:semaphore:1:@1/2/3"} {
		var got int64
		if err := owner.QueryRow(t.Context(), sql, name).Scan(&got); err != nil || got != -1 {
			t.Errorf("of %q: %d, %v", name, got, err)
		}
		execute(t, owner, "SELECT pglock.register('"+name+"')")
	}
}
