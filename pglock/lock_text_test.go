package pglock_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

func TestLockTellsItsState(t *testing.T) {
	t.Parallel()
	locker, err := locktest.NewMemory()
	txCheck(t, err)
	defer func() { txCheck(t, locker.Close(t.Context())) }()
	lock, err := locker.LockAll(t.Context(), []pglock.Key{pglock.Int64Key(2), pglock.Int64Key(1)}, pglock.WithToken("t1"))
	txCheck(t, err)
	if got, want := lock.String(), `lock "@1" and 1 more, held`; got != want {
		t.Errorf("it is %q, want %q", got, want)
	}
	txCheck(t, lock.Unlock(t.Context()))
	if got, want := lock.String(), `lock "@1" and 1 more, unlocked`; got != want {
		t.Errorf("it is %q, want %q", got, want)
	}
}

func TestLockLostReasonIsOneWordInEveryLog(t *testing.T) {
	t.Parallel()
	var text, json bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewTextHandler(&text, nil), slog.NewJSONHandler(&json, nil)} {
		slog.New(handler).Info("x", "reason", pglock.LostMaxHold)
	}
	if !strings.Contains(text.String(), "reason=max-hold") || !strings.Contains(json.String(), `"reason":"max-hold"`) {
		t.Errorf("logged: %s%s", &text, &json)
	}
}
