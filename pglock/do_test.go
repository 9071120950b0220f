package pglock_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

func TestDoSaysOnceThatTheLockWasLost(t *testing.T) {
	t.Parallel()
	server, key := locktest.NewServer(), pglock.NewKey("invoice:42")
	l, err := server.Locker()
	must.Succeed(t, err)
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	for name, own := range map[string]error{"the cause alone": nil, "with an error of its own": errors.New("half done")} {
		err := l.Do(t.Context(), key, func(ctx context.Context, _ *pglock.Lock) error {
			server.Lose(key)
			<-ctx.Done()
			return errors.Join(context.Cause(ctx), own)
		})
		if !errors.Is(err, pglock.ErrLost) || own != nil && !errors.Is(err, own) {
			t.Errorf("%s: the error is %v", name, err)
		}
		if n := strings.Count(err.Error(), "lost"); n != 1 {
			t.Errorf("%s: the loss is in the error %d times: %v", name, n, err)
		}
	}
	err = l.Do(t.Context(), key, func(ctx context.Context, _ *pglock.Lock) error {
		server.Lose(key)
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, pglock.ErrLost) {
		t.Errorf("a function that does not notice: the error is %v", err)
	}
}
