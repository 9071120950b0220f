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
				first := NewGrant(key(1), true, new(owner))
				r.must(m.Try(t.Context(), first))
				ctx, cancel := c.ctx()
				defer cancel()
				_, err := m.TryBeside(ctx, NewGrant(key(1), true, new(owner)), first)
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
