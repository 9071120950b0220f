package migrations_test

import (
	"testing"

	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/pglock"
)

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
