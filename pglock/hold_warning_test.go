package pglock_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/locktest"
)

// logText is a log that is written in the background.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func forgetsItsLock(ctx context.Context, t *testing.T, l *pglock.Locker, key pglock.Key) *pglock.Lock {
	lock, err := l.Lock(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func TestHoldWarningNamesWhoAcquiredTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logText
		l, err := locktest.NewMemory(pglock.WithHoldWarning(time.Minute), pglock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if err != nil {
			t.Fatal(err)
		}
		short := forgetsItsLock(t.Context(), t, l, pglock.NewKey("short"))
		time.Sleep(59 * time.Second)
		if err := short.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		var exempt []*pglock.Lock
		for _, kind := range []pglock.UseKind{pglock.UseLeader, pglock.UseLeaderMark, pglock.UseTickMark} {
			exempt = append(exempt, mustLock(t, l, pglock.NewKey(string(kind)), pglock.WithUse(pglock.Use{Kind: kind})))
		}
		lock := forgetsItsLock(t.Context(), t, l, pglock.NewKey("forgotten"))
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if got := log.String(); got != "" {
			t.Errorf("the log says %s", got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		got := log.String()
		for _, want := range []string{"level=WARN", "forgotten", "held=1m0s", "pglock_test.forgetsItsLock (", "hold_warning_test.go:"} {
			if !strings.Contains(got, want) {
				t.Errorf("the log says %q, want %q in it", got, want)
			}
		}
		if n := strings.Count(got, "\n"); n != 1 {
			t.Errorf("there are %d warnings, want one:\n%s", n, got)
		}
		for _, lock := range append(exempt, lock) {
			mustUnlock(t, lock)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if _, err := locktest.NewMemory(pglock.WithHoldWarning(0)); err == nil {
		t.Error("WithHoldWarning(0) is no error")
	}
}
