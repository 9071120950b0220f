package pglock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Lock is a held lock. It ends once, when it is unlocked or lost. All methods may be called concurrently, and from
// goroutines other than the one that acquired it.
//
// A Lock may be lost between checking it and acting on it. Work should run under [Lock.Context]; database writes that
// must not happen without the lock need [Lock.GuardTx], and effects elsewhere [Lock.Fence].
type Lock struct {
	hold    *hold
	key     [1]driver.Key // as its caller named it
	several *severalKeys  // all, of which hold and key are the first; nil for one key
	number  uint64        // of its token
	since   driver.Instant
	use     *Use // what a primitive uses it for; nil for plain locks

	mu       sync.Mutex
	err      error                     // why it ended
	expires  driver.Instant            // when MaxHold ends it; 0 is never
	timer    *time.Timer               // checks expires
	life     *lockContext              // ends with the lock; made when it is first needed
	contexts map[*lockContext]struct{} // others that end with it

	fence    atomic.Int64  // 0 until it has been asked for
	guarding chan struct{} // has room while no call guards the first transaction; made when it is first needed
	guarded  atomic.Bool
	part     bool // it is for one of several keys that a LockAll takes, and no caller has it
}

func (l *Lock) keys() []driver.Key {
	if l.several != nil {
		return l.several.keys
	}
	return l.key[:]
}

// holds returns the hold of each key.
func (l *Lock) holds() []*hold {
	if l.several != nil {
		return l.several.holds
	}
	return []*hold{l.hold}
}

// grants returns the grant of each key.
func (l *Lock) grants() (all []driver.Grant) {
	for _, h := range l.holds() {
		all = append(all, h.grant)
	}
	return all
}

// Key returns the key of the lock; for a LockAll of several it is the zero Key.
func (l *Lock) Key() Key {
	if len(l.keys()) > 1 {
		return Key{}
	}
	return Key{k: l.key[0]}
}

// Keys returns all keys of the lock, without duplicates, in the order in which they were locked.
func (l *Lock) Keys() []Key {
	return publicKeys(l.keys())
}

// Token returns this acquisition's unique identifier, which on Redis the server stores.
func (l *Lock) Token() string { return l.hold.locker.token(l.number) }

// Done returns a channel that is closed when the lock ends.
func (l *Lock) Done() <-chan struct{} {
	return l.lifetime().Done()
}

// Err returns nil while the lock is held. Then it is [ErrUnlocked], or a *[LostError], which matches [ErrLost]. It
// checks the clock and does not rely on timers. So the first call tells a process that it was frozen beyond the
// lease or MaxHold.
func (l *Lock) Err() error {
	l.mu.Lock()
	err, expires := l.err, l.expires
	l.mu.Unlock()
	if err != nil {
		return err
	}
	now := driver.Now()
	switch h := l.overdue(now); {
	case expires != 0 && now >= expires:
		l.lose(LostMaxHold, nil)
	case h != nil:
		h.locker.expire(h, LostLease, nil)
	default:
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// overdue returns a hold of l whose lease is over, or nil.
func (l *Lock) overdue(now driver.Instant) *hold {
	for _, h := range l.holds() {
		if now >= h.grant.Deadline() {
			return h
		}
	}
	return nil
}

// Verify asks the server whether the lock is still held. The error matches [ErrLost] if it is not, [ErrUnlocked]
// after an Unlock, and [ErrUnavailable] if there was no answer: then the lock may still be held. A nil error holds
// for the moment of the server's answer only.
func (l *Lock) Verify(ctx context.Context) error {
	if err := l.Err(); err != nil {
		return l.says("verify", err)
	}
	for _, g := range l.grants() {
		if err := l.hold.locker.backend.Check(ctx, g); err != nil {
			return l.failed("verify", err)
		}
	}
	return nil
}

// Extend sets the deadline of [MaxHold] to d from now. It has no effect on the server. It is an error if d is not
// positive. If the lock has ended the error matches [ErrLost] or [ErrUnlocked].
func (l *Lock) Extend(d time.Duration) error {
	if d <= 0 {
		return l.failed("extend", fmt.Errorf("the duration %v is not positive", d))
	}
	if err := l.Err(); err != nil {
		return l.says("extend", err)
	}
	l.limit(d)
	return nil
}

// Unlock releases the lock. It returns nil if the lock was held until now. Its error matches [ErrLost] if the lock
// was lost: the work may have overlapped with another holder's. On a second call it matches [ErrUnlocked]. Any other
// error means that the server did not confirm in time. It frees the lock when it gets the statement, or at the
// latest when the lease expires. An Unlock that leaves the lock to others of this process, which share it or are next (see
// [WithHandoffLimit]), does not ask the server: like Err, it learns of a loss one network delay late.
//
// Unlock uses only the values of ctx: it works even if ctx has ended. It waits at most five seconds for the server.
func (l *Lock) Unlock(ctx context.Context) error {
	if l.Err() != nil || !l.end(ErrUnlocked) {
		return l.says("unlock", l.Err())
	}
	err := l.hold.locker.drop(ctx, l)
	if lost, ok := errors.AsType[*LostError](err); ok { // found by this call
		l.hold.locker.countsOf(l.hold.groups).lost.Add(1)
		l.reportLost(lost)
	} else {
		l.reportReleased(ctx)
	}
	return err
}

// end ends the lock with err. It returns false if the lock had ended before: of concurrent calls of Unlock, MaxHold,
// Close and a loss, the first one here wins.
func (l *Lock) end(err error) bool {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return false
	}
	l.err = err
	if l.timer != nil {
		l.timer.Stop()
	}
	life, contexts := l.life, l.contexts
	l.contexts = nil
	l.mu.Unlock()
	if life != nil {
		life.end(err)
	}
	for c := range contexts {
		c.end(err)
	}
	return true
}

// limit ends the lock d from now; 0 is no limit.
func (l *Lock) limit(d time.Duration) {
	if d == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expires = driver.Now().Add(d)
	switch {
	case l.err != nil:
	case l.timer == nil:
		l.timer = time.AfterFunc(d, func() { _ = l.Err() }) // which ends it, unless Extend has just moved the deadline
	default:
		l.timer.Reset(d)
	}
}

// lose ends l alone, not others that share its key, and releases it even if its holder has not finished.
func (l *Lock) lose(why LostReason, err error) {
	if lost := l.lostError(why, err); l.end(lost) {
		locker := l.hold.locker
		locker.countsOf(l.hold.groups).lost.Add(1)
		go func() { _ = locker.drop(context.Background(), l) }() // the holder must not wait for it
		locker.notifications.Add(loss{l, lost, why != LostMaxHold})
	}
}

func (l *Lock) lostError(why LostReason, err error) *LostError {
	return &LostError{Keys: l.Keys(), Reason: why, Err: err}
}

// failed explains an error of the backend. If the error is a loss it ends the lock, and others that share its key, unless it may
// be the loss of another key of the lock.
func (l *Lock) failed(attempt string, err error) error {
	if errors.Is(err, ErrLost) {
		if l.several != nil {
			l.lose(reasonOf(err), err)
		} else {
			l.hold.locker.expire(l.hold, reasonOf(err), err)
		}
		if ended := l.Err(); ended != nil {
			return l.says(attempt, ended)
		}
	}
	return l.says(attempt, err)
}

// says adds what was attempted and on which lock.
func (l *Lock) says(attempt string, err error) error {
	return failed(attempt, Key{k: l.key[0]}, len(l.keys())-1, err)
}
