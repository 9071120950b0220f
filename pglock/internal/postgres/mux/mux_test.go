package mux

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
)

// A caller saw that there were too few sessions, and asks for one more only after the last one has been opened.
func TestMuxNeverOpensMoreSessionsThanItMayHave(t *testing.T) {
	var dials atomic.Int32
	m := New(Config{
		Sessions: 2,
		Open: func(context.Context, func(*Session)) (*Session, error) {
			dials.Add(1)
			return nil, errors.New("the test has no server")
		},
		Log: slog.New(slog.DiscardHandler),
	})
	m.open.Store(&[]*Session{{}})
	m.dialMore()
	m.dials.Wait()
	if n := dials.Load(); n != 1 {
		t.Fatalf("with one session of two there were %d dials", n)
	}
	m.fails, m.retryAt = 0, m.retryAt.Add(-maxRedial)
	m.open.Store(&[]*Session{{}, {}})
	m.dialMore()
	m.dials.Wait()
	if n := dials.Load(); n != 1 {
		t.Error("with two sessions of two there was one more dial")
	}
}
