package mux

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/lease"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wiretest"
)

// If a Mux has one session, a caller that joins a shared key asks whether a writer waits. If its context ends meanwhile
// the error is the context's. It also matches ErrUnavailable, but only if the server has been silent for answerPatience.
func TestMuxNewcomerLeavesTheQuestionForAWriter(t *testing.T) {
	cancelled := func() (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Millisecond, cancel)
		return ctx, cancel
	}
	within := func(d time.Duration) func() (context.Context, context.CancelFunc) {
		return func() (context.Context, context.CancelFunc) { return context.WithTimeout(context.Background(), d) }
	}
	for name, c := range map[string]struct {
		ctx    func() (context.Context, context.CancelFunc)
		want   error
		silent bool
	}{
		"cancelled":     {cancelled, context.Canceled, false},
		"soon over":     {within(time.Millisecond), context.DeadlineExceeded, false},
		"over too late": {within(2 * answerPatience), context.DeadlineExceeded, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := make(chan struct{})
				r := newRig(t, func(st wiretest.Statement) wiretest.Verdict {
					if strings.Contains(st.SQL, "pg_locks") {
						<-answer
					}
					return wiretest.Verdict{}
				})
				m := New(Config{Sessions: 1, Log: slog.New(slog.DiscardHandler)})
				m.open.Store(&[]*Session{r.session})
				first, err := m.TryShared(t.Context(), []driver.Key{key(1)}, noOwner{})
				r.must(err)
				ctx, cancel := c.ctx()
				defer cancel()
				_, err = m.TryShared(ctx, []driver.Key{key(1)}, noOwner{})
				if !errors.Is(err, c.want) || errors.Is(err, driver.ErrUnavailable) != c.silent {
					t.Errorf("got %v", err)
				}
				close(answer)
				r.must(first.Release(t.Context()))
				r.close()
			})
		})
	}
}

// One of two keys is held elsewhere, and the server does not confirm that the other one is free again. Who asks again
// would meet the release.
func TestMuxTryOfSharedKeysThatAreNotFreeYetIsUnsettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		r := newRig(t, func(st wiretest.Statement) wiretest.Verdict {
			if len(st.Keys) > 0 && st.Releases(0) {
				<-answer
			}
			return wiretest.Verdict{}
		})
		elsewhere, _ := wiretest.Start(r.locks, func(wiretest.Statement) wiretest.Verdict { return wiretest.Verdict{} })
		other := NewSession(elsewhere, lease.New(time.Hour, driver.Now), new(Budget), slog.New(slog.DiscardHandler), func(*Session) {})
		r.must(other.Try(t.Context(), grantOf(noOwner{}, 2)))
		m := New(Config{Sessions: 1, Log: slog.New(slog.DiscardHandler)})
		m.open.Store(&[]*Session{r.session})
		_, err := m.TryShared(t.Context(), []driver.Key{key(1), key(2)}, noOwner{})
		open, ok := errors.AsType[*driver.UnsettledError](err)
		if !ok || !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrNotAcquired) {
			t.Fatalf("got %v", err)
		}
		close(answer)
		<-open.Done
		if r.locks.Holder(1) != nil {
			t.Error("the key is held")
		}
		other.End(driver.LostClosed, nil)
		r.close()
	})
}
