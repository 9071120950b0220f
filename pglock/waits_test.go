package pglock

import (
	"context"
	"errors"
	"testing"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// busy is a server that has granted all locks to others.
type busy struct{ driver.Backend }

func (busy) Start(driver.Config) error { return nil }
func (busy) Acquire(context.Context, driver.Request) (driver.Grant, error) {
	return nil, driver.ErrNotAcquired
}

// A call that gives its turn away waits no more. The next one would find that its own turn is kept by it.
func TestDeadlockTheNextInLineIsNoVictimOfTheCallBefore(t *testing.T) {
	done := make(chan struct{})
	close(done)
	settled := &driver.UnsettledError{Done: done}
	for what, giveUp := range map[string]func(*Locker, *request){
		"answered": (*Locker).stopAsking,
		"settled":  func(l *Locker, r *request) { l.stopAskingWhenSettled(r, settled) },
	} {
		l, err := NewWithBackend(busy{})
		if err != nil {
			t.Fatal(err)
		}
		first, ctx, key := &request{}, t.Context(), NewKey("k")
		if err := errors.Join(l.prepare(first, []Key{key}, false, nil), l.passQueues(ctx, first)); err != nil {
			t.Fatal(err)
		}
		if _, first.wait, err = l.beginWait(ctx, first, false); err != nil {
			t.Fatal(err)
		}
		giveUp(l, first)
		if _, err := l.Lock(ctx, key); !errors.Is(err, ErrNotAcquired) {
			t.Errorf("%s: the next call: %v", what, err)
		}
	}
}
