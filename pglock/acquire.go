package pglock

import (
	"context"
	"errors"
	"sync"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Lock waits for the lock and takes it. If ctx ends first, or [MaxWait] has passed, or the wait is cancelled on the
// server (pg_cancel_backend), the error is a *[WaitError]. ctx bounds the wait and nothing else: when it ends later,
// the lock stays held. Run the work under [Lock.Context], and call [Lock.Unlock] when it is done.
//
// When Lock returns an error, the caller holds nothing and has nothing to unlock. After [ErrUnavailable] a late
// request may still be granted; the server frees it within one lease. So after the end of ctx Lock still waits for
// the server's answer. If there is none it returns ErrUnavailable: a second later, or up to five seconds later if it
// waited in the server's queue. If the server cannot be reached, Lock returns ErrUnavailable after one fresh attempt
// to connect, whatever ctx and MaxWait allow; with [RetryUnavailable] the wait continues.
//
// Calls of one process can form a cycle, in which each waits for a lock of the next. The call that would complete it
// fails at once with a *[DeadlockError]. The cycle is found only if each call waits under the [Lock.Context] of what
// it holds, without [context.WithoutCancel] in between. A cycle of several processes of one role ends within two or
// three seconds, with the same error for one of its calls. A guarded transaction counts as the holder of its lock;
// for others see [TxContext]. To take several keys, use [Locker.LockAll], or bound the wait.
func (l *Locker) Lock(ctx context.Context, key Key, opts ...LockOption) (*Lock, error) {
	return l.acquire(ctx, []Key{key}, false, opts)
}

// TryLock takes the lock if it is free. Otherwise it returns at once, with a *[WaitError], which matches
// [ErrNotAcquired]. ctx bounds the wait for the server's answer. MaxWait is an error here.
func (l *Locker) TryLock(ctx context.Context, key Key, opts ...LockOption) (*Lock, error) {
	return l.acquire(ctx, []Key{key}, true, opts)
}

// LockAll takes all the locks or none of them, as one Lock. All calls, in every process, take keys in one fixed
// order, so two calls for the same keys cannot deadlock with each other. The same key twice is harmless; no keys at
// all are an error that matches [ErrInvalidKey].
//
// If not all of them are free, LockAll takes them one after another, each when it is its turn, and keeps those that it
// has. So callers that take their keys in that order, whether one by one or together, cannot deadlock.
func (l *Locker) LockAll(ctx context.Context, keys []Key, opts ...LockOption) (*Lock, error) {
	return l.acquire(ctx, l.inOrder(keys), false, opts)
}

// TryLockAll takes all the locks if they are free, and otherwise none of them. Like [Locker.TryLock] it does not wait.
func (l *Locker) TryLockAll(ctx context.Context, keys []Key, opts ...LockOption) (*Lock, error) {
	return l.acquire(ctx, l.inOrder(keys), true, opts)
}

// request is one call of Lock, TryLock, LockAll or TryLockAll.
type request struct {
	keys   []driver.Key // in order
	groups groupSet     // of the keys
	try    bool         // does not wait
	config lockConfig
	number uint64 // of its token
	since  driver.Instant
	caller context.Context // for the Observer
	waited bool            // it did not get the lock at once
	at     int             // the place in keys of the one that it waits for
	of     *request        // the LockAll that takes the key as one of several; nil if there is none

	attempt
	oneKey [1]driver.Key // room for the usual one
}

// attempt is what a request does, once or, with RetryUnavailable, several times. While the request waits in a queue,
// that queue's group guards it.
type attempt struct {
	entry  *entry        // of its only key, if it is there
	queued bool          // it waits there
	before int           // answers, when the request ahead asked
	ready  chan struct{} // closed when that wait is over
	lock   *Lock         // the result, if it need not ask the backend
	beside driver.Grant  // what this process had shared when it began to ask
	behind bool          // it waited for a holder: the server has answered it, or a request ahead

	refused error // the end of a wait in the queue without its turn; nil otherwise
}

// acquire takes keys, which are in order.
func (l *Locker) acquire(ctx context.Context, keys []Key, try bool, opts []LockOption) (*Lock, error) {
	r, err := l.newRequest(ctx, keys, try, opts)
	if err != nil {
		return nil, err
	}
	counts := l.countsOf(r.groups)
	counts.waiting.Add(1)
	defer counts.waiting.Add(-1)
	if r.config.bounded && !r.try {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.config.maxWait, errMaxWait)
		defer cancel()
	}
	lock, err := l.take(ctx, r)
	if err != nil && r.config.outage > 0 {
		lock, err = l.takeInOutage(ctx, r, err)
	}
	if err != nil || l.config.observer != nil {
		waited := driver.Now().Sub(r.since)
		if err != nil {
			err = l.explain(ctx, r, err, waited)
		}
		l.reportEnd(r, waited, err)
	}
	if err != nil {
		return nil, err
	}
	if r.config.maxHold > 0 {
		lock.limit(r.config.maxHold)
	}
	r.recycle()
	return lock, nil
}

// requests keeps finished requests for reuse: a third of what a lock allocated.
var requests = sync.Pool{New: func() any { return new(request) }}

// recycle keeps r for reuse, if its call did not wait: no queue, and no search for deadlocks, has known it then.
func (r *request) recycle() {
	if !r.waited && len(r.keys) == 1 {
		*r = request{}
		requests.Put(r)
	}
}

// newRequest makes a request from the arguments of the call.
func (l *Locker) newRequest(ctx context.Context, keys []Key, try bool, opts []LockOption) (*request, error) {
	if len(keys) == 0 {
		return nil, errNoKeys
	}
	if err := checkKeys(keys); err != nil {
		return nil, failed("lock", keys[0], len(keys)-1, err)
	}
	r := requests.Get().(*request)
	r.since, r.caller = driver.Now(), ctx
	r.keys = r.oneKey[:0]
	for _, key := range keys {
		r.keys = append(r.keys, key.k)
		r.groups |= 1 << groupOf(key.k.KeyID)
	}
	if err := r.config.read(opts); err != nil {
		return nil, err
	}
	wait, err := r.config.wait(try)
	if err != nil {
		return nil, err
	}
	r.try = !wait
	if r.try && r.config.outage > 0 {
		return nil, errors.New("pglock: RetryUnavailable contradicts a call that never waits")
	}
	r.number = l.numbers.Add(1)
	return r, nil
}

// take takes r's keys.
func (l *Locker) take(ctx context.Context, r *request) (*Lock, error) {
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case len(r.keys) > 1:
		return l.takeAll(ctx, r)
	}
	return l.takeOne(ctx, r)
}

// takeOne passes r, which has one key, through the queue of this process and then through the backend's. If it fails, r
// leaves them, as soon as the backend knows that its key is not locked.
func (l *Locker) takeOne(ctx context.Context, r *request) (*Lock, error) {
	for {
		lock, err := l.takeTurn(ctx, r)
		if err == nil {
			return lock, nil
		}
		l.leaveAfter(r, err)
		if !errors.Is(err, errBeginAgain) {
			return nil, err
		}
		r.attempt = attempt{behind: r.behind}
	}
}

// takeTurn is takeOne without a repetition, and without the end of a failure.
func (l *Locker) takeTurn(ctx context.Context, r *request) (*Lock, error) {
	if err := l.enter(ctx, r); err != nil {
		return nil, err
	}
	if r.lock != nil {
		return r.lock, nil
	}
	lock, err := l.ask(ctx, r, false)
	if r.try || !errors.Is(err, ErrNotAcquired) {
		return lock, err
	}
	return l.askAndWait(ctx, r)
}

// enter brings r to the entry of its key and waits there, if it must, for its turn or the end of ctx, and not at all if that would
// be for ever. After an error r may be there still.
func (l *Locker) enter(ctx context.Context, r *request) error {
	waits, err := l.queue(r)
	if err != nil || !waits {
		return err
	}
	if !r.try { // which waits for the server, and not for other callers
		var w *wait
		if ctx, w, err = l.beginWait(ctx, r, true); err != nil {
			return err
		}
		defer endWait(w)
		r.reportWait(l)
	}
	select {
	case <-r.ready:
		return r.refused
	case <-l.closing:
		err = ErrClosed
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	l.lock(r.groups)
	defer l.unlock(r.groups)
	if !l.withdrawLocked(r) {
		// Its turn came first, so r uses it: the backend checks ctx again, and a hold that was handed off is a lock like any other.
		return r.refused
	}
	return err
}

// ask gets the lock from the backend for r, which is busy at its entry.
func (l *Locker) ask(ctx context.Context, r *request, wait bool) (*Lock, error) {
	h := l.newHold(r)
	grant, err := l.backend.Acquire(ctx, r.driverRequest(h, wait))
	if err != nil {
		return nil, err
	}
	lock, spare := l.granted(r, h, grant)
	if lock == nil {
		return nil, errBeginAgain
	}
	if spare {
		_ = l.release(ctx, h) // before the caller has the Lock: when that is unlocked, the key must be free
	}
	return lock, nil
}

// errBeginAgain says that what r has got was lost before it was returned.
var errBeginAgain = errors.New("the lock was lost before it was returned")

// driverRequest is what r asks the backend for.
func (r *request) driverRequest(h *hold, wait bool) driver.Request {
	return driver.Request{
		Key: r.keys[0], Shared: r.config.shared, Wait: wait, Beside: r.beside, LossHandler: h, Token: h,
	}
}

// askAndWait is ask for a lock that is held by another process. Close ends the wait.
func (l *Locker) askAndWait(ctx context.Context, r *request) (*Lock, error) {
	ctx, w, err := l.beginWait(ctx, r, false)
	if err != nil {
		return nil, err
	}
	defer endWait(w)
	r.reportWait(l)
	r.behind = true
	l.lock(r.groups)
	r.entry.answers++
	r.entry.waits = true
	r.entry.refuseTriesLocked()
	l.unlock(r.groups)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	l.mu.Lock()
	closed := l.closed.Load()
	if !closed {
		l.asking[r] = end
	}
	l.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.asking, r)
	}()
	return l.ask(ctx, r, true)
}

// granted makes a Lock from the backend's grant to h. It returns nil if that, or the hold that it stands for, is lost already. If the
// Lock is on another hold, h may be spare: then its key is busy, and release must follow.
func (l *Locker) granted(r *request, h *hold, grant driver.Grant) (lock *Lock, spare bool) {
	now := driver.Now()
	l.lock(r.groups)
	defer l.unlock(r.groups)
	e := r.entry
	switch held := e.hold; {
	case h.over: // Lost came first
		return nil, false
	case held != nil: // no writer is in line
		held.passed, held.since = 0, now
		lock = l.attachLocked(held, r, &Lock{number: r.number}, now)
		spare = grant != held.grant
		h.over = spare
	case grant == r.beside: // its last Lock was unlocked
		return nil, false
	default:
		h.since, e.hold = now, h
		lock = l.attachLocked(h, r, &h.first, now)
	}
	h.grant = grant
	if !spare {
		e.busy--
	}
	e.answers++
	e.writer, e.waits = false, false
	l.wakeQueueLocked(e) // others may join it
	return lock, spare
}
