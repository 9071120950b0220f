package pglock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// This file takes several keys, each as a Lock of its own, a part. First they are tried at the same time, so that the backend
// can send the tries together. If not all are free, a call that waits takes them one after another, in the order of all
// processes, each under the contexts of the earlier ones. So the call stands in one queue at a time, and keeps from others only
// what it holds: if it stood in line for later keys already, callers that keep the order could wait for each other. When all
// are held, one Lock takes over what the parts have got.
//
// A part that is lost ends the wait for the next one, and the call begins again, unless the server may still hold a key for it: its
// next error would hide that. If the loss comes with the last grant, either join finds it, or it ends the new Lock.

// takeAll takes r's keys, several.
func (l *Locker) takeAll(ctx context.Context, r *request) (*Lock, error) {
	for {
		lock, err := l.takeParts(ctx, r, l.tryTogether)
		if !r.try && errors.Is(err, ErrNotAcquired) {
			lock, err = l.takeParts(ctx, r, l.takeInOrder)
		}
		switch {
		case !errors.Is(err, ErrLost):
			return lock, err
		case isUnsettled(err), ctx.Err() != nil && errors.Is(err, ErrUnavailable): // the server may still hold a key
			return nil, notGivenBack(cmp.Or(context.Cause(ctx), errBeginAgain))
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		r.number = l.numbers.Add(1) // what releases the parts may arrive late, and knows them by their token
	}
}

// takeParts takes all parts once. The error matches ErrLost if one was lost meanwhile. After an error none is held.
func (l *Locker) takeParts(
	ctx context.Context, r *request, take func(context.Context, *request, []*Lock) error,
) (lock *Lock, err error) {
	parts := make([]*Lock, len(r.keys))
	defer func() {
		if lock == nil && !l.giveBackAll(parts) {
			err = notGivenBack(err)
		}
	}()
	if err := take(ctx, r, parts); err != nil {
		return nil, err
	}
	return l.join(r, parts)
}

// tryTogether tries all keys at the same time. A call that does not wait tries the first one before: callers that try the same
// free keys meet there, so one of them gets all. Of several errors it returns one after which the server may still hold a key,
// if there is one, or else one that is no refusal.
func (l *Locker) tryTogether(ctx context.Context, r *request, parts []*Lock) (worst error) {
	var tries []*request // that ask the backend
	var holds, spares []*hold
	var requests []driver.Request
	for i := range parts {
		try := r.part(i, true)
		if err := l.enter(ctx, try); err != nil {
			for _, earlier := range tries {
				l.leave(earlier)
			}
			return err
		}
		if parts[i] = try.lock; try.lock == nil {
			h := l.newHold(try)
			tries, holds, requests = append(tries, try), append(holds, h), append(requests, try.driverRequest(h, false))
		}
	}
	var grants []driver.Grant
	var errs []error
	if r.try && len(requests) > 0 {
		grants, errs = l.acquireTogether(ctx, requests[:1])
	}
	if asked := len(errs); asked == 0 || errs[0] == nil {
		more, moreErrs := l.acquireTogether(ctx, requests[asked:])
		grants, errs = append(grants, more...), append(errs, moreErrs...)
	}
	for _, try := range tries[len(errs):] { // the first key was refused
		l.leave(try)
	}
	for i, err := range errs {
		switch {
		case err != nil:
			l.leaveAfter(tries[i], err)
		default:
			part, spare := l.granted(tries[i], holds[i], grants[i])
			if spare {
				spares = append(spares, holds[i])
			}
			if parts[tries[i].at] = part; part == nil {
				l.leave(tries[i])
				err = ErrLost
			}
		}
		if err != nil && (worst == nil || errors.Is(worst, ErrNotAcquired) || errors.Is(err, ErrUnavailable)) {
			worst = err
		}
	}
	_ = l.releaseTogether(ctx, spares)
	return worst
}

// acquireTogether asks the backend for several keys.
func (l *Locker) acquireTogether(ctx context.Context, requests []driver.Request) ([]driver.Grant, []error) {
	beside := func(r driver.Request) bool { return r.Beside != nil }
	if b, ok := l.backend.(driver.Together); ok && len(requests) > 1 && !slices.ContainsFunc(requests, beside) {
		return b.AcquireTogether(ctx, requests)
	}
	grants, errs := make([]driver.Grant, len(requests)), make([]error, len(requests))
	var asked sync.WaitGroup
	for i, r := range requests {
		asked.Go(func() { grants[i], errs[i] = l.backend.Acquire(ctx, r) })
	}
	asked.Wait()
	return grants, errs
}

// takeInOrder takes one key after another.
func (l *Locker) takeInOrder(ctx context.Context, r *request, parts []*Lock) (err error) {
	for i := range parts {
		part := r.part(i, false)
		r.at = i
		parts[i], err = l.takeOne(ctx, part)
		r.behind = r.behind || part.behind
		if err != nil {
			return err
		}
		ctx = parts[i].Context(ctx)
	}
	return nil
}

// part is a request for one of r's keys.
func (r *request) part(i int, try bool) *request {
	return &request{
		keys: r.keys[i : i+1], at: i, groups: 1 << groupOf(r.keys[i].KeyID), try: try,
		config: r.config, number: r.number, since: r.since, caller: r.caller, of: r,
	}
}

// giveBackAll releases the parts that are held, and reports whether the server has confirmed it in time.
func (l *Locker) giveBackAll(parts []*Lock) bool {
	failed := make(chan bool, len(parts))
	for _, part := range parts {
		go func() {
			var err error
			if part != nil {
				err = l.giveBack(part)
			}
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
		return fmt.Errorf("a key is held, and %w", errNotGivenBack)
	}
	return fmt.Errorf("%w, and %w", err, errNotGivenBack)
}

var errNotGivenBack = fmt.Errorf("the server may still hold keys for this call: %w", ErrUnavailable)

// giveBackWithin is how long a failed call waits for the release of what it had. Later it is released in the background.
const giveBackWithin = time.Second

// join makes one Lock of the parts.
func (l *Locker) join(r *request, parts []*Lock) (*Lock, error) {
	now := driver.Now()
	l.lock(r.groups)
	defer l.unlock(r.groups)
	if slices.ContainsFunc(parts, func(part *Lock) bool { return part.hold.over }) {
		return nil, ErrLost
	}
	whole := &Lock{number: r.number, several: &severalKeys{keys: r.keys}}
	for _, part := range parts {
		h := part.hold
		h.locks[slices.Index(h.locks, part)] = whole
		whole.several.holds = append(whole.several.holds, h)
		part.end(ErrUnlocked) // which ends its contexts
	}
	for _, part := range parts {
		l.countsOf(part.hold.groups).held.Add(-1)
	}
	return l.fill(whole, parts[0].hold, r, now), nil
}

// severalKeys is what a Lock of several keys has of each.
type severalKeys struct {
	keys  []driver.Key // in order, as their caller named them
	holds []*hold
}
