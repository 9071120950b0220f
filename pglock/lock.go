package pglock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Lock is a lock that is held, until it is unlocked or lost. It ends at most once. All methods may be called
// concurrently, and by other goroutines than the one that acquired it.
//
// A Lock is not proof of anything by itself: between looking at it and acting on it, it may be lost. Work should run
// under [Lock.Context]; writes to the database that must not happen without the lock need [Lock.GuardTx], and effects
// elsewhere [Lock.Fence].
type Lock struct {
	hold  *hold
	key   [1]driver.Key // as its caller named it; the first of several
	token uint64        // the number of one of the Locker's own; 0 when WithToken has set another
	since driver.Instant

	mu     sync.Mutex
	err    error   // why it has ended
	extras *extras // made when something in it is needed
}

// extras are what most Locks do without, under the Lock's mu.
type extras struct {
	token      string // what WithToken has set
	use        *Use   // what a primitive takes it for; nil is nothing special
	done       chan struct{}
	expires    driver.Instant // when MaxHold ends it; 0 is never
	timer      *time.Timer    // looks at expires
	heldLong   *time.Timer    // of WithHoldWarning
	contexts   map[*lockContext]struct{}
	endless    *lockContext    // for parents that do not end
	observed   context.Context // for the Observer, once Acquired has been called
	ownContext bool            // Acquired has returned it
	untold     *LostError      // a loss that waits for that
	noticed    chan struct{}   // made by a Close that ends the lock, closed by the holder's Unlock

	fencing turn  // of who asks for the fence
	fence   int64 // 0 until it has been asked for

	guarding turn // of who guards the first transaction
	guarded  bool // one has been
}

// more returns the extras. It runs under mu.
func (k *Lock) more() *extras {
	if k.extras == nil {
		k.extras = &extras{}
	}
	return k.extras
}

// keys returns the keys, in order. A hold of several keys is never shared by two Locks.
func (k *Lock) keys() []driver.Key {
	if several := k.hold.several; several != nil {
		return several.keys
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

// Token returns what identifies this acquisition among all of all processes, or what [WithToken] set.
func (k *Lock) Token() string {
	if k.token != 0 {
		return k.hold.locker.tokens.numbered(k.token).String()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.extras.token
}

// Done returns a channel that is closed when the lock has ended, however that came about.
func (k *Lock) Done() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	x := k.more()
	if x.done == nil {
		x.done = make(chan struct{})
		if k.err != nil {
			close(x.done)
		}
	}
	return x.done
}

// Err returns nil while the lock is held. Then it is [ErrUnlocked], or a *[LostError], which matches [ErrLost]. It
// compares the clock itself and does not rely on timers, so a process that was frozen beyond the lease, or beyond
// MaxHold, learns of it with its first look.
func (k *Lock) Err() error {
	k.mu.Lock()
	err, expires := k.err, driver.Instant(0)
	if x := k.extras; x != nil {
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
		k.hold.locker.lapse(k.hold, LostLease, nil)
	default:
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// Deadline returns when the lock ends if the server is not heard from any more: the end of its lease, or of [MaxHold] if
// that comes first. ok is false when it has neither, which is so for locks in memory. While the server answers the lease is
// renewed, so the Deadline moves; ask again rather than keep it. A lock that has ended has the zero Time, which has passed.
//
// The time is computed from a clock that goes on while the machine sleeps, on Linux, and does not follow changes of the
// wall clock. The Time itself is like one of [time.Now]: its wall clock may be set, and its monotonic reading stands still
// during sleep. So it is good for budgets ("is there time for one more batch?"); whether the lock is still held is for Err.
func (k *Lock) Deadline() (deadline time.Time, ok bool) {
	if k.Err() != nil {
		return time.Time{}, true
	}
	at := k.hold.grant.Deadline()
	k.mu.Lock()
	if x := k.extras; x != nil && x.expires != 0 {
		at = min(at, x.expires)
	}
	k.mu.Unlock()
	if at == driver.Never {
		return time.Time{}, false
	}
	return time.Now().Add(at.Sub(driver.Now())), true
}

// Verify asks the server whether the lock is still held: nil, or an error that matches [ErrLost] or, after an Unlock,
// [ErrUnlocked]. [ErrUnavailable] says that there was no answer, and the lock may still be held. A nil is true of the
// moment at which the server answered, and of no later one.
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

// Extend moves the deadline that [MaxHold] set, or sets one, to d from now. It only concerns this process: nothing is
// sent. A d that is not positive is an error; when the lock has ended the error matches [ErrLost] or [ErrUnlocked].
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
//
// It does not depend on ctx, from which it takes values only: the work's context may have ended long ago. It waits for
// at most five seconds for the server.
func (k *Lock) Unlock(ctx context.Context) error {
	if k.Err() != nil || !k.end(ErrUnlocked) {
		k.notice()
		return k.says("unlock", k.Err())
	}
	err := k.hold.locker.drop(ctx, k)
	if lost, ok := errors.AsType[*LostError](err); ok { // found out by this very call
		k.hold.countLost()
		k.tellLost(lost)
	} else {
		k.tellReleased(ctx)
	}
	return err
}

// end makes the lock end with err, and reports false when it had ended before. Of Unlock, MaxHold, Close and a loss that
// meet, the first one here decides.
func (k *Lock) end(err error) bool {
	k.mu.Lock()
	if k.err != nil {
		k.mu.Unlock()
		return false
	}
	k.err = err
	var contexts map[*lockContext]struct{}
	if x := k.extras; x != nil {
		contexts, x.contexts = x.contexts, nil
		x.end()
	}
	k.mu.Unlock()
	for c := range contexts {
		c.cancel(err)
	}
	return true
}

// end stops what runs for a lock that has ended, but for its contexts. It runs under the Lock's mu.
func (x *extras) end() {
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
	x := k.more()
	x.noticed = make(chan struct{})
	return x.noticed
}

// notice tells a Close that waits for it that the holder knows.
func (k *Lock) notice() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if x := k.extras; x != nil && x.noticed != nil {
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
	x := k.more()
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

// expireInTime is what the timer runs. Extend may have moved the deadline just then.
func (k *Lock) expireInTime() {
	k.mu.Lock()
	early := k.extras.expires.Sub(driver.Now())
	if early > 0 && k.err == nil {
		k.extras.timer.Reset(early)
	}
	k.mu.Unlock()
	if early <= 0 {
		k.expire()
	}
}

// expire ends a lock whose MaxHold is over, and gives it back although its holder may not have finished.
func (k *Lock) expire() {
	if lost := k.lostError(LostMaxHold, nil); k.end(lost) {
		l := k.hold.locker
		k.hold.countLost()
		go func() { _ = l.drop(context.Background(), k) }() // in the background: the holder must not wait for it
		l.news.add(loss{k, lost}.report)
	}
}

func (k *Lock) lostError(why LostReason, err error) *LostError {
	return &LostError{Key: Key{k: k.key[0]}, More: len(k.keys()) - 1, Reason: why, Err: err}
}

// failed explains an error of the backend. One that says that the lock is gone is the lock's end.
func (k *Lock) failed(attempt string, err error) error {
	if errors.Is(err, ErrLost) {
		k.hold.locker.lapse(k.hold, LostSession, err)
		if ended := k.Err(); ended != nil {
			return k.says(attempt, ended)
		}
	}
	return k.says(attempt, err)
}

// says adds what was attempted, and on which lock.
func (k *Lock) says(attempt string, err error) error {
	return failed(attempt, Key{k: k.key[0]}, len(k.keys())-1, err)
}
