package rowlock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
)

// No session held the lock, so a loss has another reason, and all calls that find it say so.
func TestALossHasTheReasonGoneWhateverFindsIt(t *testing.T) {
	t.Parallel()
	owner, _ := installed(t)
	for name, find := range map[string]func(context.Context, *pglock.Lock) error{
		"Verify": func(ctx context.Context, lock *pglock.Lock) error { return lock.Verify(ctx) },
		"Unlock": func(ctx context.Context, lock *pglock.Lock) error { return lock.Unlock(ctx) },
		"Fence": func(ctx context.Context, lock *pglock.Lock) error {
			_, _ = lock.Fence(ctx) // the first token needs no statement
			_, err := lock.Fence(ctx)
			return errors.Join(err, lock.Verify(ctx))
		},
	} {
		held := lock(t, open(t, owner))
		_, err := owner.Exec(t.Context(), "UPDATE pglock.leases SET holder = NULL")
		must.Succeed(t, err)
		err = find(t.Context(), held)
		if lost, ok := errors.AsType[*pglock.LostError](err); !ok || lost.Reason != pglock.LostGone {
			t.Errorf("%s: got %v, want a loss for the reason %q", name, err, pglock.LostGone)
		}
	}
}
