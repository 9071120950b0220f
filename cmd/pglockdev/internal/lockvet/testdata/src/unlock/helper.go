package unlock

import (
	"context"
	"testing"

	"github.com/pglock-toolkit/pglock/pglock"
)

func helper(ctx context.Context, t *testing.T, l *pglock.Locker) {
	if _, err := l.TryLock(ctx, key); err == nil {
		t.Error("it was free")
	}
}
