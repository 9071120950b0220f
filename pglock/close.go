package pglock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Close closes the Locker. First the channel of [Locker.Closing] is closed, and waiting and new calls fail with
// [ErrClosed]. Then Close waits until the held locks have been unlocked. After a second the log names those that are
// still held. When the time for that is up, it ends and releases them: their Contexts end, and Err is a *[LostError]
// with reason closed. The error says how many locks were ended, names the ten oldest, and matches the context's error.
//
// Close returns by ctx's deadline, or within ten seconds if it has none, even if the server does not answer. The
// last quarter of the time, but at most three seconds, is for the releases and the end of the sessions; holders have
// the rest. If ctx is cancelled, or has ended before, Close ends everything at once, which takes up to three seconds.
// If the server does not confirm a release in time, it frees the lock when it notices the end of the session, at the
// latest when the lease expires.
//
// A second Close returns nil at once. Under the context of a Lock of this Locker, as in the function of Do, Close would
// wait for its own caller: it does nothing and returns [ErrSelfDeadlock].
func (l *Locker) Close(ctx context.Context) error {
	for _, lock := range ancestors(ctx) {
		if lock.hold.locker == l && l.checkOpen() == nil {
			return fmt.Errorf("pglock: close: %w: its context descends from that of a Lock of %s, which is held "+
				"(close when that is unlocked)", ErrSelfDeadlock, keyText(lock.name(), 0))
		}
	}
	if !l.refuse() {
		return nil
	}
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, closeWithoutDeadline)
		defer cancel()
	}
	if backend, ok := l.backend.(driver.Drainer); ok {
		backend.Drain()
	}
	err := l.awaitHolders(ctx)
	left := timeToClose(ctx)
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), left)
	defer cancel()
	_ = l.awaitDrained(within, left/2) // a release that hangs ends with its session
	closed := make(chan error, 1)
	go func() {
		ending, cancel := context.WithTimeout(within, left/4)
		defer cancel()
		l.lookout.close()
		err := cmp.Or(l.backend.Close(ending), l.awaitDrained(within, 0))
		l.notifications.Wait(within)
		closed <- err
	}()
	var closeErr error
	select {
	case closeErr = <-closed:
	case <-within.Done():
		closeErr = errNotInTime
	}
	if closeErr != nil {
		closeErr = fmt.Errorf("pglock: close: %w", closeErr)
	}
	return errors.Join(err, closeErr)
}

// Closing returns a channel that is closed when [Locker.Close] begins, before it waits for holders. Work that can stop
// early, and loops that take locks repeatedly, should watch it; the contexts of locks end only when the time of Close
// is over.
func (l *Locker) Closing() <-chan struct{} { return l.closing }

// awaitHolders waits for the locks to be unlocked, and ends those that are still held when that has taken too long.
// They are released concurrently, since each release may have to wait for a silent server.
func (l *Locker) awaitHolders(ctx context.Context) error {
	late := time.AfterFunc(lateWhenClosed, l.warnOfHeld)
	defer late.Stop()
	deadline, _ := ctx.Deadline()
	cause := l.awaitDrained(ctx, min(max(time.Until(deadline), 0)/4, keptForClose))
	if cause == nil {
		return nil
	}
	var ended []*Lock
	for _, k := range l.locks() {
		l.expire(k.hold, LostClosed, cause)
		if errors.Is(k.Err(), ErrLost) {
			ended = append(ended, k)
		}
	}
	if len(ended) == 0 { // the last one was unlocked just then
		return nil
	}
	return fmt.Errorf("pglock: close: locks that were still held have been ended (%d): %s: %w", len(ended), namesOf(ended), cause)
}

// awaitDrained waits until no key is in use, for so long before the end of ctx.
func (l *Locker) awaitDrained(ctx context.Context, before time.Duration) error {
	deadline, _ := ctx.Deadline()
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(-before))
	defer cancel()
	select {
	case <-l.drained:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// warnOfHeld writes to the log which locks a Close waits for.
func (l *Locker) warnOfHeld() {
	if held := l.locks(); len(held) > 0 {
		l.config.env.Logger.Warn("close waits for locks that are still held", "locks", len(held), "held", namesOf(held))
	}
}

// namesOf names the oldest of locks: each with its use, and since when it is held.
func namesOf(locks []*Lock) string {
	slices.SortFunc(locks, func(a, b *Lock) int { return cmp.Compare(a.since, b.since) })
	var names []string
	for _, k := range locks[:min(len(locks), mostNamed)] {
		tag := ""
		if use := k.purpose(); use.Kind != UseLock {
			tag = ", " + string(use.Kind)
		}
		names = append(names, fmt.Sprintf("%s (since %s%s)", keyText(k.name(), len(k.keys())-1), wallTime(k.since).Format(time.RFC3339), tag))
	}
	if more := len(locks) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// timeToClose returns how long Close, which has waited for the holders, may still take.
func timeToClose(ctx context.Context) time.Duration {
	deadline, _ := ctx.Deadline()
	if ctx.Err() != nil {
		return keptForClose
	}
	return min(time.Until(deadline), keptForClose)
}

// refuse fails present and future waiters. It returns false if that has been done before.
func (l *Locker) refuse() bool {
	l.lock(allGroups)
	defer l.unlock(allGroups)
	if l.closed.Swap(true) {
		return false
	}
	close(l.closing) // which ends the waits in queues
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, end := range l.asking {
		end(ErrClosed)
	}
	l.undrained.Store(groups)
	for i := range l.groups {
		l.drainLocked(&l.groups[i])
	}
	return true
}

// drainLocked notes that no key of the group is in use any more. After refuse none comes into use.
func (l *Locker) drainLocked(g *group) {
	if l.closed.Load() && len(g.entries) == 0 && l.undrained.Add(-1) == 0 {
		close(l.drained)
	}
}

// locks returns the Locks that callers have. The parts of a LockAll end with its call.
func (l *Locker) locks() (all []*Lock) {
	l.eachEntry(func(e *entry) {
		if e.hold == nil {
			return
		}
		for _, k := range e.hold.locks {
			if k.hold == e.hold && !k.part {
				all = append(all, k)
			}
		}
	})
	return all
}

const (
	keptForClose   = 3 * time.Second // of a longer deadline, or after a cancel
	lateWhenClosed = time.Second     // after that the log names what is held

	closeWithoutDeadline = 10 * time.Second
)

var errNotInTime = errors.New("not everything ended in time: the rest continues in the background")
