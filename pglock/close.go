package pglock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Close closes the Locker. First the channel of [Locker.Closing] is closed, and waiting and new calls fail with
// [ErrClosed]. Then Close waits until the held locks have been unlocked. After a second the log names those that are
// still held. When the time for that is up, it ends them: their Contexts end, Err is a *[LostError] with reason
// closed, holders get up to a second to notice, and then the locks are released. The error says how many locks were
// ended, names the first ten, and matches the context's error.
//
// Close returns by ctx's deadline, or within ten seconds if it has none, even if the server does not answer. The
// last quarter of the time, but at most three seconds, is for the grace, the releases and the end of the sessions;
// holders have the rest. If ctx is cancelled, or has ended before, Close ends everything at once, which takes up to
// three seconds. If the server does not confirm a release in time, it frees the lock when it notices the end of the
// session, at the latest when the lease expires.
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
	held, err := l.awaitHolders(ctx)
	left := timeToClose(ctx)
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), left)
	defer cancel()
	step := left / closeSteps
	if len(held) > 0 {
		time.Sleep(min(step, graceWhenClosed))
	}
	released := l.releaseAll(within, held)
	_ = before(within, step, func(ctx context.Context) error { return await(ctx, l.drained) }) // an Unlock that hangs ends with its session
	closeErr := inTime(within, func() error {
		l.lookout.close()
		return before(within, step/2, l.backend.Close) // the rest is for what the backend cannot end at once
	})
	if closeErr != nil {
		closeErr = fmt.Errorf("pglock: close: %w", closeErr)
	}
	l.notifications.Wait(within)
	return errors.Join(err, inTime(within, released), closeErr)
}

// Closing returns a channel that is closed when [Locker.Close] begins, before it waits for holders. Work that can stop
// early, and loops that take locks repeatedly, should watch it; the contexts of locks end only when the time of Close
// is over.
func (l *Locker) Closing() <-chan struct{} { return l.closing }

// awaitHolders waits for the locks to be unlocked, and ends those that are still held when that has taken too long. It returns
// their holds, which are to be released.
func (l *Locker) awaitHolders(ctx context.Context) (held []*hold, err error) {
	late := time.AfterFunc(lateWhenClosed, l.warnOfHeld)
	defer late.Stop()
	deadline, _ := ctx.Deadline()
	kept := min(max(time.Until(deadline), 0)/4, keptForClose)
	cause := before(ctx, kept, func(ctx context.Context) error { return await(ctx, l.drained) })
	if cause == nil {
		return nil, nil
	}
	locks := l.locks()
	var ended []*Lock
	for _, k := range locks {
		if h := l.endHold(k.hold, LostClosed, cause, true); h != nil {
			held = append(held, h)
		}
		if errors.Is(k.Err(), ErrLost) {
			ended = append(ended, k)
		}
	}
	if len(ended) == 0 { // the last one was unlocked just then
		return held, nil
	}
	return held, fmt.Errorf("pglock: close: locks that were still held have been ended (%d): %s: %w", len(ended), namesOf(ended), cause)
}

// warnOfHeld writes to the log which locks a Close waits for.
func (l *Locker) warnOfHeld() {
	held := l.locks()
	if len(held) > 0 {
		l.config.env.Logger.Warn("close waits for locks that are still held", "locks", len(held), "held", namesOf(held))
	}
}

// namesOf names the first of locks: each with its use and its chosen token, and since when it is held.
func namesOf(locks []*Lock) string {
	var names []string
	for _, k := range locks[:min(len(locks), mostNamed)] {
		tag := ""
		if use := k.purpose(); use.Kind != UseLock {
			tag = ", " + string(use.Kind)
		}
		if !strings.HasPrefix(k.token, k.hold.locker.tokens) {
			tag += ", token " + shorttext.Quote(k.token)
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

// before calls run with a context that ends before ctx's deadline.
func before(ctx context.Context, d time.Duration, run func(context.Context) error) error {
	deadline, _ := ctx.Deadline()
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(-d))
	defer cancel()
	return run(ctx)
}

// await waits until the channel is closed, or ctx has ended.
func await(ctx context.Context, closed <-chan struct{}) error {
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// inTime calls run, and returns its error. If run has not returned soon after the end of ctx, it continues in the background.
func inTime(ctx context.Context, run func() error) error {
	result := make(chan error, 1)
	go func() { result <- run() }()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-result: // the end of ctx has ended it
		return err
	case <-time.After(afterClose):
		return errNotInTime
	}
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
		for _, h := range e.holds {
			if h.entries()[0] == e && !h.part {
				all = append(all, h.locks...)
			}
		}
	})
	return all
}

// releaseAll releases holds concurrently, since each may have to wait for a silent server. Those that wait end when the
// backend is closed. The returned function waits for all, and returns the error of the first that failed.
func (l *Locker) releaseAll(ctx context.Context, held []*hold) (wait func() error) {
	released := make(chan error, len(held))
	for _, h := range held {
		go func() { released <- h.first.lossDuringUnlock(l.releaseHold(ctx, h)) }()
	}
	return func() (first error) {
		failed := 0
		for range held {
			if err := <-released; err != nil {
				failed, first = failed+1, cmp.Or(first, err)
			}
		}
		if failed > 1 {
			return fmt.Errorf("%w (and %d more)", first, failed-1)
		}
		return first
	}
}

const (
	keptForClose    = 3 * time.Second // of a longer deadline, or after a cancel
	closeSteps      = 3               // grace, releases, end of the sessions
	afterClose      = 50 * time.Millisecond
	graceWhenClosed = time.Second
	lateWhenClosed  = time.Second // after that the log names what is held

	closeWithoutDeadline = 10 * time.Second
)

var errNotInTime = errors.New("not everything ended in time: the rest continues in the background")
