package unlock

import (
	"context"

	"github.com/pglock-toolkit/pglock/pglock"
)

func refused(ctx context.Context, l *pglock.Locker) error {
	_, err := l.TryLock(ctx, key)
	return err
}
