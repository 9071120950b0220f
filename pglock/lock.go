package pglock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Lock is a held lock. It ends once, when it is unlocked or lost. All methods may be called concurrently, and from
// other goroutines than the one that acquired it.
// A Lock may be lost between checking it and acting on it. Work should run under [Lock.Context]; database writes that
// must not happen without the lock need [Lock.GuardTx], and effects elsewhere [Lock.Fence].
type Lock struct {
	hold  *hold
	key   [1]driver.Key // as its caller named it; the first of several
	token uint64        // the number in the Locker's own token; 0 if WithToken has set another
	since driver.Instant

	mu   sync.Mutex
	err  error      // why it ended
	lazy *lazyState // made when it is needed
}

// lazyState is what most Locks do without. The Lock's mu guards it.
type lazyState struct {
	token      string // what WithToken has set
	use        *Use   // what a primitive uses it for; nil for plain locks
	done       chan struct{}
	expires    driver.Instant // when MaxHold ends it; 0 is never
	timer      *time.Timer    // checks expires
	heldLong   *time.Timer    // of WithHoldWarning
	contexts   map[*lockContext]struct{}
	endless    *lockContext    // for parents that do not end
	observed   context.Context // for the Observer, once Acquired has been called
	ownContext bool            // Acquired has returned it
	untold     *LostError      // a loss to report after that
	noticed    chan struct{}   // made by a Close that ends the lock, closed by the holder's Unlock

	fencing turn  // held while asking for the fence
	fence   int64 // 0 until it has been asked for

	guarding turn // held while guarding the first transaction
	guarded  bool // one has been
}

// lazyLocked returns the lazy state, and makes it if there is none.
func (k *Lock) lazyLocked() *lazyState {
	if k.lazy == nil {
		k.lazy = &lazyState{}
	}
	return k.lazy
}

// keys returns the keys, in order. A hold of several keys is never shared by two Locks.
func (k *Lock) keys() []driver.Key {
	if multi := k.hold.multi; multi != nil {
		return multi.keys
	}
	return k.key[:]
}

// Key returns the key of the lock; for a LockAll of several it is the zero Key.
func (k *Lock) Key() Key {
	if len(k.keys()) > 1 {
		return Key{}
	}
	return Key{k: k.key[0]}
}

// Keys returns all keys of the lock, without duplicates, in the order in which they were locked.
func (k *Lock) Keys() []Key {
	return publicKeys(k.keys())
}

// Token returns this acquisition's unique identifier, or the value given to [WithToken].
func (k *Lock) Token() string {
	if k.token != 0 {
		return k.hold.locker.tokens.numbered(k.token).String()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lazy.token
}

// Done returns a channel that is closed when the lock ends.
func (k *Lock) Done() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	x := k.lazyLocked()
	if x.done == nil {
		x.done = make(chan struct{})
		if k.err != nil {
			close(x.done)
		}
	}
	return x.done
}

// Err returns nil while the lock is held. Then it is [ErrUnlocked], or a *[LostError], which matches [ErrLost]. It
// checks the clock and does not rely on timers, so a process that was frozen beyond the lease, or beyond MaxHold,
// learns of it from its first call.
func (k *Lock) Err() error {
	k.mu.Lock()
	err, expires := k.err, driver.Instant(0)
	if x := k.lazy; x != nil {
		expires = x.expires
	}
	k.mu.Unlock()
	if err != nil {
		return err
	}
	now := driver.Now()
	switch {
	case expires != 0 && now >= expires:
		k.expire()
	case now >= k.hold.grant.Deadline():
		k.hold.locker.expire(k.hold, LostLease, nil)
	default:
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// Deadline returns when the lock ends if the server does not answer any more: the end of its lease, or of [MaxHold] if
// that comes first. ok is false if it has neither, like locks in memory. While the server answers the lease is renewed
// and the Deadline moves, so do not keep it. For a lock that has ended it is the zero Time.
// On Linux the deadline is computed from a clock that keeps running while the machine sleeps and ignores changes of the
// wall clock. The returned Time is like one of [time.Now]: the wall clock may be set, and the monotonic reading stops
// during sleep. Use it for budgets ("is there time for one more batch?"), and Err to check the lock.
func (k *Lock) Deadline() (deadline time.Time, ok bool) {
	if k.Err() != nil {
		return time.Time{}, true
	}
	at := k.hold.grant.Deadline()
	k.mu.Lock()
	if x := k.lazy; x != nil && x.expires != 0 {
		at = min(at, x.expires)
	}
	k.mu.Unlock()
	if at == driver.Never {
		return time.Time{}, false
	}
	return time.Now().Add(at.Sub(driver.Now())), true
}

// Verify asks the server whether the lock is still held. The error matches [ErrLost] if it is not, [ErrUnlocked] after
// an Unlock, and [ErrUnavailable] if there was no answer, so that the lock may still be held. A nil error holds for the
// moment of the server's answer only.
func (k *Lock) Verify(ctx context.Context) error {
	if err := k.Err(); err != nil {
		return k.says("verify", err)
	}
	err := k.hold.locker.backend.Check(ctx, k.hold.grant)
	if err == nil {
		return nil
	}
	return k.failed("verify", err)
}

// Extend sets the deadline of [MaxHold] to d from now. It has no effect on the server. It is an error if d is not
// positive. If the lock has ended the error matches [ErrLost] or [ErrUnlocked].
func (k *Lock) Extend(d time.Duration) error {
	if d <= 0 {
		return k.failed("extend", fmt.Errorf("the duration %v is not positive", d))
	}
	if err := k.Err(); err != nil {
		return k.says("extend", err)
	}
	k.limit(d)
	return nil
}

// Unlock releases the lock. It returns nil if the lock was held until now. It returns an error that matches [ErrLost]
// if the lock was lost, so that the work may have overlapped with another holder's, and [ErrUnlocked] on a second call.
// Any other error means that the server did not confirm in time; it frees the lock when it gets the statement, or at
// the latest when the lease is over. An Unlock that hands the lock to the next waiter of this process (see
// [WithHandoffLimit]) does not ask the server: like Err, it learns of a loss one network delay late.
// Unlock uses the values of ctx only: it works even if ctx has ended. It waits at most five seconds for the server.
func (k *Lock) Unlock(ctx context.Context) error {
	if k.Err() != nil || !k.end(ErrUnlocked) {
		k.notice()
		return k.says("unlock", k.Err())
	}
	err := k.hold.locker.drop(ctx, k)
	if lost, ok := errors.AsType[*LostError](err); ok { // found by this call
		k.hold.countLost()
		k.tellLost(lost)
	} else {
		k.tellReleased(ctx)
	}
	return err
}

// end ends the lock with err. It returns false if the lock had ended before: of concurrent calls of Unlock, MaxHold,
// Close and a loss, the first one here wins.
func (k *Lock) end(err error) bool {
	k.mu.Lock()
	if k.err != nil {
		k.mu.Unlock()
		return false
	}
	k.err = err
	var contexts map[*lockContext]struct{}
	if x := k.lazy; x != nil {
		contexts, x.contexts = x.contexts, nil
		x.endLocked()
	}
	k.mu.Unlock()
	for c := range contexts {
		c.cancel(err)
	}
	return true
}

// endLocked stops what runs for a lock that has ended, except its contexts.
func (x *lazyState) endLocked() {
	if x.timer != nil {
		x.timer.Stop()
	}
	if x.heldLong != nil {
		x.heldLong.Stop()
	}
	if x.done != nil {
		close(x.done)
	}
}

// expectNotice returns a channel that the holder's Unlock closes.
func (k *Lock) expectNotice() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	x := k.lazyLocked()
	x.noticed = make(chan struct{})
	return x.noticed
}

// notice notifies a waiting Close that the holder knows of the end.
func (k *Lock) notice() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if x := k.lazy; x != nil && x.noticed != nil {
		close(x.noticed)
		x.noticed = nil
	}
}

// limit ends the lock d from now; 0 is no limit.
func (k *Lock) limit(d time.Duration) {
	if d == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	x := k.lazyLocked()
	x.expires = driver.Now().Add(d)
	if k.err != nil {
		return
	}
	if x.timer == nil {
		x.timer = time.AfterFunc(d, k.expireInTime)
	} else {
		x.timer.Reset(d)
	}
}

// expireInTime runs when the timer fires. Extend may just have moved the deadline.
func (k *Lock) expireInTime() {
	k.mu.Lock()
	early := k.lazy.expires.Sub(driver.Now())
	if early > 0 && k.err == nil {
		k.lazy.timer.Reset(early)
	}
	k.mu.Unlock()
	if early <= 0 {
		k.expire()
	}
}

// expire ends a lock whose MaxHold is over, and releases it even if its holder has not finished.
func (k *Lock) expire() {
	if lost := k.lostError(LostMaxHold, nil); k.end(lost) {
		l := k.hold.locker
		k.hold.countLost()
		go func() { _ = l.drop(context.Background(), k) }() // the holder must not wait for it
		l.news.add(loss{k, lost}.report)
	}
}

func (k *Lock) lostError(why LostReason, err error) *LostError {
	return &LostError{Key: Key{k: k.key[0]}, More: len(k.keys()) - 1, Reason: why, Err: err}
}

// failed explains an error of the backend. If the error is a loss it ends the lock.
func (k *Lock) failed(attempt string, err error) error {
	if errors.Is(err, ErrLost) {
		k.hold.locker.expire(k.hold, LostSession, err)
		if ended := k.Err(); ended != nil {
			return k.says(attempt, ended)
		}
	}
	return k.says(attempt, err)
}

// says adds what was attempted and on which lock.
func (k *Lock) says(attempt string, err error) error {
	return failed(attempt, Key{k: k.key[0]}, len(k.keys())-1, err)
}
