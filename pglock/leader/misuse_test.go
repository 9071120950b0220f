package leader_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/leader"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

func TestLeaderMisuseIsAnError(t *testing.T) {
	l, err := locktest.NewMemory()
	must.Closing(t, l, err)
	if _, err := leader.New(nil, electionKey); err == nil {
		t.Error("a nil Locker is accepted")
	}
	if _, err := leader.New(l, pglock.Key{}); !errors.Is(err, pglock.ErrInvalidKey) {
		t.Errorf("the zero Key: %v", err)
	}
	for name, opt := range map[string]leader.Option{
		"nil": nil, "a pause of zero": leader.WithBackoff(0, time.Second), "pauses in reverse": leader.WithBackoff(2, 1),
		"nil WithEvents": leader.WithEvents(nil),
	} {
		if err := leader.Run(t.Context(), l, electionKey, nothing, opt); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	e, err := leader.New(l, electionKey)
	must.Succeed(t, err)
	if err := e.Run(t.Context(), nil); err == nil {
		t.Error("a nil function is accepted")
	}
	ctx, stop := context.WithCancel(t.Context())
	_ = e.Run(ctx, func(context.Context, *pglock.Lock) error { // it returns the end of ctx
		if err := e.Run(ctx, nothing); !errors.Is(err, leader.ErrRunning) {
			t.Errorf("a second Run: %v", err)
		}
		stop()
		return nil
	})
}
