package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// caller is a goroutine that uses one Locker.
type caller struct {
	s      *simulation
	number int
	locker int
	random *rand.Rand
	under  context.Context // of a lock that it has; else nil
	from   int64           // the first key that it may ask for
}

func newCaller(s *simulation, number int) *caller {
	return &caller{s: s, number: number, locker: number % len(s.lockers), random: s.source(1000 + uint64(number))}
}

func (c *caller) String() string { return fmt.Sprintf("caller %d of Locker %d", c.number, c.locker) }

func (c *caller) chance(n int) bool { return c.random.IntN(n) == 0 }

func (c *caller) upTo(d time.Duration) time.Duration { return c.s.vary(c.random, d) }

func (c *caller) run() {
	for range 2 + c.random.IntN(5) {
		time.Sleep(c.upTo(c.pace()))
		c.once()
	}
}

// pace is how long things take here, usually.
func (c *caller) pace() time.Duration {
	if c.chance(12) {
		return c.s.lease
	}
	return 100 * c.s.distance
}

// request is what a caller asks for.
type request struct {
	keys    []driver.KeyID
	names   []pglock.Key
	try     bool
	shared  bool
	bounded bool // by MaxWait
	hold    time.Duration
	options []pglock.LockOption
	ctx     context.Context
	ends    bool // ctx does
	limited bool // by MaxHold
}

func (c *caller) draw() (r request, cancel context.CancelFunc) {
	for _, n := range c.random.Perm(3)[:1+c.random.IntN(3)*c.random.IntN(2)] {
		n = max(n, int(c.from))
		if slices.Contains(r.keys, driver.KeyID{Space: driver.SpaceBigint, Number: int64(n)}) {
			continue
		}
		r.names = append(r.names, pglock.Int64Key(int64(n)))
		r.keys = append(r.keys, driver.KeyID{Space: driver.SpaceBigint, Number: int64(n)})
	}
	if r.shared = c.chance(3); r.shared {
		r.options = append(r.options, pglock.Shared())
	}
	r.try = c.chance(4)
	if r.bounded = !r.try && c.chance(4); r.bounded {
		r.options = append(r.options, pglock.MaxWait(1+c.upTo(c.pace())))
	}
	if !r.try && c.chance(3) {
		r.options = append(r.options, pglock.RetryUnavailable(time.Minute))
	}
	if r.limited = c.chance(10); r.limited {
		r.options = append(r.options, pglock.MaxHold(1+c.upTo(c.pace())))
	}
	r.hold = c.upTo(c.pace())
	if c.s.faulty && c.chance(8) {
		r.hold = c.upTo(2 * c.s.lease)
	}
	under := context.Background()
	if c.under != nil {
		under = c.under
	}
	r.ctx, cancel = context.WithCancel(under)
	if r.ends = c.chance(4); r.ends {
		r.ctx, cancel = context.WithTimeout(under, c.upTo(c.pace()))
	}
	return r, cancel
}

// once asks for a lock, works and unlocks.
func (c *caller) once() {
	r, cancel := c.draw()
	defer cancel()
	c.s.mu.Lock()
	c.s.trace("%v asks for %v, try %v, shared %v, bounded %v, ends %v", c, numbers(r.keys), r.try, r.shared, r.bounded, r.ends)
	c.s.count.calls++
	c.s.oracle.asks(c, r.keys)
	c.s.mu.Unlock()
	lock, err := c.ask(r)
	c.s.mu.Lock()
	c.s.trace("%v gets %v: %v", c, numbers(r.keys), err)
	if err != nil {
		c.s.oracle.done(c, r.keys, err, !c.s.faulty || !r.shared)
		c.judge(r, err)
		c.s.mu.Unlock()
		return
	}
	c.s.oracle.gets(c, lock, r.keys, r.shared)
	c.s.mu.Unlock()
	c.work(lock, r)
	c.unlock(lock, r)
}

func numbers(keys []driver.KeyID) (all []int64) {
	for _, key := range keys {
		all = append(all, key.Number)
	}
	return all
}

// ask calls the Locker, which must come back in time when its context has ended.
func (c *caller) ask(r request) (*pglock.Lock, error) {
	l := c.s.lockers[c.locker]
	ended := make(chan time.Time, 1)
	stop := context.AfterFunc(r.ctx, func() { ended <- time.Now() })
	defer stop()
	var lock *pglock.Lock
	var err error
	switch {
	case r.try && len(r.names) == 1:
		lock, err = l.TryLock(r.ctx, r.names[0], r.options...)
	case r.try:
		lock, err = l.TryLockAll(r.ctx, r.names, r.options...)
	case len(r.names) == 1:
		lock, err = l.Lock(r.ctx, r.names[0], r.options...)
	default:
		lock, err = l.LockAll(r.ctx, r.names, r.options...)
	}
	select {
	case at := <-ended:
		if late := time.Since(at); late > 6*time.Second {
			c.s.mu.Lock()
			c.s.wrong("%v came back %v after the end of its context", c, late)
			c.s.mu.Unlock()
		}
	default:
	}
	return lock, err
}

// judge checks that a call could fail with err.
func (c *caller) judge(r request, err error) {
	c.s.count.errors++
	if errors.Is(err, pglock.ErrDeadlock) {
		c.s.count.victims++
	}
	allowed := []error{}
	if r.try || r.bounded {
		allowed = append(allowed, pglock.ErrNotAcquired)
	}
	if r.ends {
		allowed = append(allowed, context.DeadlineExceeded)
	}
	if r.ends || r.bounded {
		if strings.Contains(err.Error(), "no connection yet") {
			allowed = append(allowed, pglock.ErrUnavailable)
		}
	}
	if c.s.faulty {
		allowed = append(allowed, pglock.ErrUnavailable, pglock.ErrNotAcquired, pglock.ErrTooManyLocks)
	}
	if c.s.nests && !c.s.ordered {
		allowed = append(allowed, pglock.ErrDeadlock)
	}
	if c.under != nil && c.under.Err() != nil {
		allowed = append(allowed, pglock.ErrLost, context.Canceled)
	}
	if c.s.closed[c.locker] {
		allowed = append(allowed, pglock.ErrClosed)
	}
	if !slices.ContainsFunc(allowed, func(a error) bool { return errors.Is(err, a) }) {
		c.s.wrong("%v got the error %v", c, err)
	}
}

// work is what the lock is for. Meanwhile the caller looks at it.
func (c *caller) work(lock *pglock.Lock, r request) {
	time.Sleep(r.hold / 2)
	switch c.random.IntN(6) {
	case 0:
		ctx, cancel := context.WithTimeout(context.Background(), c.upTo(c.pace()))
		defer cancel()
		_ = lock.Verify(ctx)
	case 1:
		_ = lock.Extend(1 + c.upTo(c.s.lease))
	}
	c.s.mu.Lock()
	c.s.oracle.looks(lock)
	c.s.mu.Unlock()
	if c.s.nests && c.under == nil && c.chance(2) {
		c.nested(lock, r.keys)
	}
	time.Sleep(r.hold - r.hold/2)
}

func (c *caller) unlock(lock *pglock.Lock, r request) {
	c.s.mu.Lock()
	c.s.oracle.looks(lock)
	held := lock.Err() == nil
	c.s.oracle.unlocks(lock)
	c.s.mu.Unlock()
	began := time.Now()
	err := lock.Unlock(context.Background())
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.trace("%v unlocks %v: %v", c, numbers(r.keys), err)
	// The session on which a newcomer has asked for a shared key may not have confirmed that it is free there.
	c.s.oracle.done(c, r.keys, err, err == nil && (!c.s.faulty || !r.shared))
	took := time.Since(began)
	switch {
	case took > driver.ReleaseTimeout:
		c.s.wrong("%v unlocked for %v", c, took)
	case err == nil && !held:
		c.s.wrong("%v unlocked a lock that was lost", c)
	case !c.s.faulty && err != nil && !isMaxHold(err):
		c.s.wrong("%v could not unlock: %v", c, err)
	}
	if second := lock.Unlock(context.Background()); !errors.Is(second, pglock.ErrUnlocked) && !errors.Is(second, pglock.ErrLost) {
		c.s.wrong("%v unlocked twice: %v", c, second)
	}
}

// isMaxHold reports whether err says that the lock was held for as long as its caller wanted, which is no fault.
func isMaxHold(err error) bool {
	lost, ok := errors.AsType[*pglock.LostError](err)
	return ok && lost.Reason == pglock.LostMaxHold
}
