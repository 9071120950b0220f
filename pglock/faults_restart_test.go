package pglock_test

import (
	"context"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/pglock"
)

// The server crashes under load, with holders and waiters on sessions of all kinds, and comes back. No Locker is
// replaced.
func TestLongFaultsLocksGoOnAfterTheServerHasCrashed(t *testing.T) {
	t.Parallel()
	server := testenv.NewServer(t, nil)
	db := testenv.On(t, server)
	first, _ := openCounted(t, db, pglock.WithHandoffLimit(0, 0))
	second, _ := openCounted(t, db, pglock.WithHandoffLimit(0, 0))
	lockers, keys := []*pglock.Locker{first, second}, faultKeys(8)
	heldKeys := []pglock.Key{pglock.NewKey("waited for"), pglock.NewKey("free")}
	check := newExclusionCheck(noticeByUnlock)
	for _, mode := range crashes(t) {
		stop := keepBusy(t, 12, lockers, func(ctx context.Context, l *pglock.Locker) { lockAndVerify(ctx, t, check, l, keys) })
		locks := append(holdOnWaitSessions(t, db, first, heldKeys[:1]), mustLock(t, first, heldKeys[1]))
		works := make([]context.Context, len(locks))
		for i, lock := range locks {
			works[i] = lock.Context(t.Context())
		}
		enough := check.count() + 200
		testenv.WaitUntil(t, "locks are granted", func() bool { return check.count() >= enough })
		if err := server.Down(t.Context(), mode); err != nil {
			t.Fatal(err)
		}
		for i, lock := range locks {
			awaitDone(t, works[i].Done(), "the end of work under a lock")
			wantLost(t, lock.Unlock(t.Context()), pglock.LostSession)
		}
		if err := server.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		enough = check.count() + 200
		testenv.WaitUntil(t, "locks are granted again", func() bool { return check.count() >= enough })
		stop()
		wantQuiet(t, db, lockers...)
		wantWorking(t, keys, lockers...)
	}
}

// crashes returns the ways to stop the server: mostly crashes, and some proper shutdowns.
func crashes(t *testing.T) (modes []pgserver.Mode) {
	t.Helper()
	for range testenv.Trials(t, 1) {
		modes = append(modes, pgserver.Immediate, pgserver.Fast, pgserver.Immediate)
	}
	return modes
}
