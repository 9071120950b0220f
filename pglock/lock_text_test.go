package pglock_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

func TestLockTellsItsStateInLogs(t *testing.T) {
	t.Parallel()
	locker, err := locktest.NewMemory()
	txCheck(t, err)
	defer func() { txCheck(t, locker.Close(t.Context())) }()
	logged := func(lock *pglock.Lock) string {
		var b bytes.Buffer
		slog.New(slog.NewTextHandler(&b, nil)).Info("x", "lock", lock)
		return b.String()
	}
	lock, err := locker.LockAll(t.Context(), []pglock.Key{pglock.Int64Key(2), pglock.Int64Key(1)}, pglock.WithToken("t1"))
	txCheck(t, err)
	if got, want := lock.String(), `lock "@1" and 1 more, held`; got != want {
		t.Errorf("it is %q, want %q", got, want)
	}
	if got := logged(lock); !strings.Contains(got, "lock.key=@1 lock.more=1 lock.token=t1 lock.state=held lock.held=") {
		t.Errorf("logged: %s", got)
	}
	txCheck(t, lock.Unlock(t.Context()))
	if got, want := lock.String(), `lock "@1" and 1 more, unlocked`; got != want {
		t.Errorf("it is %q, want %q", got, want)
	}
	if got := logged(lock); !strings.Contains(got, "lock.state=unlocked") || strings.Contains(got, "held") {
		t.Errorf("logged: %s", got)
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
