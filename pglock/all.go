package pglock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// This file takes several keys that are shared, or not all free. They are taken one after another, in the order of all
// processes, each as a Lock of its own, a part, under the contexts of the earlier ones. So the call stands in one queue at a
// time, and keeps from others only what it holds: if it stood in line for later keys already, callers that keep the order
// could wait for each other. When all are held, one Lock takes over what the parts have got.
//
// A part that is lost ends the wait for the next one, and the call begins again. If the loss comes with the last grant, either
// join finds it, or it ends the new Lock.

// takeEach takes r's keys one after another.
func (l *Locker) takeEach(ctx context.Context, r *request) (*Lock, error) {
	for {
		lock, err := l.takeParts(ctx, r)
		switch {
		case lock == nil && ctx.Err() != nil && errors.Is(err, ErrLost):
			return nil, context.Cause(ctx)
		case !errors.Is(err, ErrLost):
			return lock, err
		}
		r.token = l.tokenFor(r.config) // what releases the parts may arrive late, and knows them by their token
	}
}

// takeParts takes all parts once. The error matches ErrLost if one was lost meanwhile. After an error, or if the Observer
// panics, none is held.
func (l *Locker) takeParts(ctx context.Context, r *request) (lock *Lock, err error) {
	var parts []*Lock
	defer func() {
		if lock == nil && !l.giveBackAll(parts) {
			err = notGivenBack(err)
		}
	}()
	for i := range r.keys {
		part, err := l.takePart(ctx, r, r.keys[i:i+1])
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
		ctx = part.newContext(ctx)
	}
	return l.join(r, parts)
}

// takePart takes one of r's keys.
func (l *Locker) takePart(ctx context.Context, r *request, key []driver.Key) (*Lock, error) {
	part := &request{
		keys: key, groups: 1 << groupOf(key[0].KeyID), config: r.config, token: r.token, since: r.since, caller: r.caller, of: r, try: r.try,
	}
	lock, err := l.takeTogether(ctx, part, !r.try)
	r.asked = r.asked || part.asked
	if part.ready != nil {
		r.ready = part.ready
	}
	if deadlock, ok := errors.AsType[*DeadlockError](err); ok {
		deadlock.Keys = publicKeys(r.keys)
	}
	return lock, err
}

// giveBackAll releases parts, and reports whether the server has confirmed it in time.
func (l *Locker) giveBackAll(parts []*Lock) bool {
	failed := make(chan bool, len(parts))
	for _, part := range parts {
		go func() {
			err := l.giveBack(part)
			failed <- err != nil && !errors.Is(err, ErrLost)
		}()
	}
	over := time.NewTimer(giveBackWithin)
	defer over.Stop()
	for range parts {
		select {
		case open := <-failed:
			if open {
				return false
			}
		case <-over.C:
			return false
		}
	}
	return true
}

// notGivenBack is the error of a call that ends with err while the server may still hold keys for it. It does not match
// ErrNotAcquired, after which a caller may ask again at once.
func notGivenBack(err error) error {
	if errors.Is(err, ErrNotAcquired) {
		return fmt.Errorf("%w: a key is held, and the release of the others was not confirmed", ErrUnavailable)
	}
	return fmt.Errorf("%w, and the release of keys was not confirmed: %w", err, ErrUnavailable)
}

// giveBackWithin is how long a failed call waits for the release of what it had. Later it is released in the background.
const giveBackWithin = time.Second

// join makes one Lock of the parts.
func (l *Locker) join(r *request, parts []*Lock) (*Lock, error) {
	now := driver.Now()
	whole := l.newHold(r)
	whole.entries, whole.since = nil, now
	l.lock(r.groups)
	defer l.unlock(r.groups)
	if slices.ContainsFunc(parts, func(part *Lock) bool { return part.hold.over }) {
		return nil, ErrLost
	}
	for _, part := range parts {
		h := part.hold
		e := h.entries[0]
		e.holds[slices.Index(e.holds, h)] = whole
		whole.entries, whole.grants = append(whole.entries, e), append(whole.grants, h.grants...)
		h.whole, h.locks = whole, nil
		part.end(ErrUnlocked) // which ends its contexts
	}
	l.held.Add(-int64(len(parts)))
	return l.attachLocked(whole, r, &whole.first, now), nil
}
