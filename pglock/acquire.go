package pglock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Lock takes the lock, waiting until it is free, ctx ends, [MaxWait] has passed, or the wait is cancelled on the server
// (pg_cancel_backend); in the last three cases the error is a *[WaitError]. ctx bounds the wait and nothing else: when it
// ends the lock stays held. Run the work under [Lock.Context], and call [Lock.Unlock] when it is done.
//
// When Lock returns an error, the caller holds nothing and has nothing to unlock; after [ErrUnavailable] a late request
// may still be granted, and the server frees it within one lease. So after the end of ctx Lock waits for the server's
// answer, and if there is none it returns ErrUnavailable: a second later, or up to five seconds later if it waited in
// the server's queue. If the server cannot be reached, Lock returns ErrUnavailable after one fresh attempt to connect,
// whatever ctx and MaxWait allow; with [RetryUnavailable] the wait continues.
//
// A call that would complete a cycle of calls of this process, each of which waits for a lock that the next one
// holds, fails at once with a *[DeadlockError]. It can be found only if each of them waits under the [Lock.Context] of
// what it holds: a call whose context descends from that counts as the Lock's holder waiting, unless
// [context.WithoutCancel] is between. A cycle of several processes ends within two or three seconds in the same way, for one of
// its calls, if all of them are of one role; a guarded transaction counts as its holder, and see [TxContext]. To take
// several keys, use [Locker.LockAll], or bound the wait.
func (l *Locker) Lock(ctx context.Context, key Key, opts ...LockOption) (*Lock, error) {
	return l.acquire(ctx, []Key{key}, false, opts)
}

// TryLock takes the lock if it is free, and otherwise returns a *[WaitError], which matches [ErrNotAcquired], at once;
// ctx bounds the wait for the server's answer. MaxWait is an error here.
func (l *Locker) TryLock(ctx context.Context, key Key, opts ...LockOption) (*Lock, error) {
	return l.acquire(ctx, []Key{key}, true, opts)
}

// LockAll takes all the locks or none of them, as one Lock. Every call, in every process, takes them in one fixed
// order, so that calls which name the same keys in different orders cannot deadlock with each other. The same key twice
// is harmless; no keys at all are an error that matches [ErrInvalidKey].
func (l *Locker) LockAll(ctx context.Context, keys []Key, opts ...LockOption) (*Lock, error) {
	return l.acquire(ctx, l.inOrder(keys), false, opts)
}

// TryLockAll takes all the locks if they are free, and otherwise none of them. Like [Locker.TryLock] it does not wait.
func (l *Locker) TryLockAll(ctx context.Context, keys []Key, opts ...LockOption) (*Lock, error) {
	return l.acquire(ctx, l.inOrder(keys), true, opts)
}

// acquire takes keys, which are in order.
func (l *Locker) acquire(ctx context.Context, keys []Key, try bool, opts []LockOption) (*Lock, error) {
	r := requests.Get().(*request)
	lock, err := l.serve(ctx, r, keys, try, opts)
	r.recycle() // not after a panic of the Observer: r may be in a queue
	return lock, err
}

func (l *Locker) serve(ctx context.Context, r *request, keys []Key, try bool, opts []LockOption) (*Lock, error) {
	if err := l.prepare(r, keys, try, opts); err != nil {
		return nil, err
	}
	r.since, r.caller = driver.Now(), ctx
	if r.config.bounded && !r.try {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.config.maxWait, errMaxWait)
		defer cancel()
	}
	lock, err := l.takeInOutage(ctx, r)
	if err != nil || l.config.observer != nil {
		waited := driver.Now().Sub(r.since)
		if err != nil {
			err = l.explain(ctx, r, err, waited)
		}
		l.reportEnd(ctx, r, lock, waited, err)
	}
	if err != nil {
		return nil, err
	}
	if r.config.maxHold > 0 {
		lock.limit(r.config.maxHold)
	}
	return lock, nil
}

// reportEnd reports the end of an acquiring call. If the Observer panics the caller never sees the lock, so it is given back.
func (l *Locker) reportEnd(ctx context.Context, r *request, lock *Lock, waited time.Duration, err error) {
	returned := false
	defer func() {
		if !returned && lock != nil && lock.end(ErrUnlocked) {
			_ = l.drop(ctx, lock)
		}
	}()
	r.reportEnd(l.config.observer, lock, waited, err)
	returned = true
}

// prepare fills in r from the arguments of the call.
func (l *Locker) prepare(r *request, keys []Key, try bool, opts []LockOption) error {
	if len(keys) == 0 {
		return errNoKeys
	}
	if err := checkKeys(keys); err != nil {
		return failed("lock", keys[0], len(keys)-1, err)
	}
	for _, key := range keys {
		r.keys = append(r.keys, key.k)
	}
	if err := r.config.read(opts); err != nil {
		return err
	}
	wait, err := r.config.wait(try)
	if err != nil {
		return err
	}
	r.try = !wait
	if r.try && r.config.outage > 0 {
		return errors.New("pglock: RetryUnavailable contradicts a call that never waits")
	}
	r.token = driver.Token{Text: r.config.token}
	if r.config.token == "" {
		r.token = l.tokens.next()
	}
	return nil
}

// requests keeps finished requests for reuse.
var requests = sync.Pool{New: func() any { return new(request) }}

// recycle keeps a finished request for reuse. It must be in no entry's queue and unknown to the Locker.
func (r *request) recycle() {
	clear(r.keys)
	clear(r.entries)
	*r = request{keys: r.keys[:0], entries: r.entries[:0]}
	requests.Put(r)
}

// take passes r through the queues of this process and then through the backend's.
func (l *Locker) take(ctx context.Context, r *request) (*Lock, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := l.passQueues(ctx, r); err != nil {
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

// passQueues brings r through the entries of its keys. Afterwards r is busy at all of them, or has a Lock. After an error,
// or a panic of the Observer, it is at no entry.
func (l *Locker) passQueues(ctx context.Context, r *request) error {
	passed := false
	defer func() {
		if !passed && len(r.entries) > 0 {
			l.stopAsking(r)
		}
	}()
	for _, key := range r.keys {
		if err := l.passQueue(ctx, r, l.identityOf(key)); err != nil {
			return err
		}
	}
	passed = true
	return nil
}

// passQueue brings r through the entry of its next key. If it fails, r is not at that entry.
func (l *Locker) passQueue(ctx context.Context, r *request, id identity) error {
	s := l.shardOf(id.KeyID)
	s.mu.Lock()
	defer s.mu.Unlock()
	first := len(r.entries) == 0
	switch {
	case first:
		if err := l.registerLocked(s, r); err != nil {
			return err
		}
	case s.closed:
		return ErrClosed
	}
	if l.enterLocked(s, r, id) {
		l.await(ctx, s, r)
	}
	if r.err == nil {
		r.shards = r.shards.with(s.index)
		return nil
	}
	l.turnBackLocked(s, r)
	return r.err
}

// turnBackLocked drops the last entry of r, which is not in its queue any more.
func (l *Locker) turnBackLocked(s *shard, r *request) {
	r.entries = r.entries[:len(r.entries)-1]
	if len(r.entries) == 0 {
		l.unregisterLocked(s, r)
	}
}

// await waits, with s unlocked, until r may continue or has failed.
//
// If the end of ctx and r's turn race, the first one under mu counts. If r's turn came first, r uses it although ctx
// has ended: the backend checks ctx again, and a hold that was handed off is a lock like any other.
func (l *Locker) await(ctx context.Context, s *shard, r *request) {
	returned := false
	defer func() {
		if !returned {
			l.withdrawLocked(s, r)
		}
	}()
	err := l.awaitTurnLocked(ctx, s, r)
	returned = true
	select {
	case <-r.ready:
		return
	default:
	}
	r.err = err
	e := r.entries[len(r.entries)-1]
	e.dequeueLocked(r)
	l.wakeQueueLocked(e)
}

// withdrawLocked ends a wait in which the Observer has panicked. r's turn may have come meanwhile.
func (l *Locker) withdrawLocked(s *shard, r *request) {
	e := r.entries[len(r.entries)-1]
	switch {
	case r.lock != nil: // it is counted as held only, so there is nothing else to undo
		lock := r.lock
		r.entries = r.entries[:0]
		go func() {
			if lock.end(ErrUnlocked) {
				_ = l.drop(context.Background(), lock)
			}
		}()
		return
	case e.dequeueLocked(r):
		l.wakeQueueLocked(e)
	case r.err == nil:
		e.busy--
		l.wakeQueueLocked(e)
	}
	l.turnBackLocked(s, r)
}

// awaitTurnLocked waits for r's turn or the end of ctx, and not at all if that would be for ever. It returns why r
// may not continue. It unlocks s.mu meanwhile; the Observer may panic.
func (l *Locker) awaitTurnLocked(ctx context.Context, s *shard, r *request) error {
	s.mu.Unlock()
	defer s.mu.Lock()
	ctx, w, err := l.beginWait(ctx, r, true)
	if err != nil {
		return err
	}
	defer endWait(w)
	r.reportWait(l)
	select {
	case <-r.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ask gets the locks from the backend for r, which is busy at all its entries. After ErrNotAcquired a request that
// may wait is still busy there; after any other error r is not.
func (l *Locker) ask(ctx context.Context, r *request, wait bool) (*Lock, error) {
	for {
		h := l.newHold(r)
		grant, err := l.backend.Acquire(ctx, driver.Request{
			Keys: r.keys, Shared: r.config.shared, Wait: wait, Token: r.token, LossHandler: h,
		})
		if err != nil {
			if open, ok := errors.AsType[*driver.UnsettledError](err); ok {
				l.stopAskingWhenSettled(r, open)
			} else if r.try || wait || !errors.Is(err, ErrNotAcquired) {
				l.stopAsking(r)
			}
			return nil, err
		}
		if lock := l.granted(r, h, grant); lock != nil {
			return lock, nil
		}
		// The grant was lost before it was returned, so no caller has seen it: ask again.
	}
}

// askAndWait is ask for a lock that is held by another process. Close ends the wait.
func (l *Locker) askAndWait(ctx context.Context, r *request) (*Lock, error) {
	ctx, w, err := l.beginWait(ctx, r, false)
	if err != nil {
		l.stopAsking(r)
		return nil, err
	}
	r.wait = w
	defer r.endWait()
	l.reportWait(r)
	r.asked = true
	home := r.home()
	home.mu.Lock()
	closed := home.closed
	if !closed {
		r.cancel = w.giveUp
		home.asking[r] = struct{}{}
	}
	home.mu.Unlock()
	if closed {
		l.stopAsking(r)
		return nil, ErrClosed
	}
	return l.ask(ctx, r, true)
}

// reportWait reports that r, which is busy at all its entries, waits. After a panic of the Observer r is at no entry.
func (l *Locker) reportWait(r *request) {
	returned := false
	defer func() {
		if !returned {
			l.stopAsking(r)
		}
	}()
	r.reportWait(l)
	returned = true
}

// stopAsking ends a request that got nothing from the backend, or failed at the entry of one of its later keys.
func (l *Locker) stopAsking(r *request) {
	r.endWait()
	l.lock(r.shards)
	defer l.unlock(r.shards)
	home := r.home()
	delete(home.asking, r)
	l.leaveLocked(r)
	l.unregisterLocked(home, r)
}

// stopAskingWhenSettled is stopAsking for a request whose keys may be locked, now or soon: they stay busy until the
// backend knows that they are not. r is reused meanwhile, so another request takes its place.
func (l *Locker) stopAskingWhenSettled(r *request, open *driver.UnsettledError) {
	r.endWait()
	left := &request{keys: slices.Clone(r.keys), entries: slices.Clone(r.entries), shards: r.shards}
	l.lock(r.shards)
	delete(r.home().asking, r)
	l.unlock(r.shards)
	go func() {
		<-open.Done
		l.stopAsking(left)
	}()
}

// granted makes a Lock from the backend's grant. It returns nil if the grant is lost already.
func (l *Locker) granted(r *request, h *hold, grant driver.Grant) *Lock {
	l.lock(r.shards)
	defer l.unlock(r.shards)
	if h.over { // Lost came first
		return nil
	}
	h.grant = grant
	if r.asked {
		delete(r.home().asking, r)
	}
	l.admitLocked(r, h)
	l.attachLocked(r, h, &h.first)
	for _, e := range r.entries { // others may join it
		l.wakeQueueLocked(e)
	}
	return &h.first
}
