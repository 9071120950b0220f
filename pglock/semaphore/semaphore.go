package semaphore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/internal/hooks"
	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// Semaphore gives out at most n permits at a time, across processes. Make it with [New] and share it among goroutines.
// All methods may be called concurrently. Without holders and waiters it holds nothing, and it needs no closing.
type Semaphore struct {
	locker *pglock.Locker
	key    pglock.Key
	n      int
	name   string              // for the registry
	keys   []pglock.Key        // the gate, and the slots from 1 on
	gate   []pglock.LockOption // options of the gate's lock
	slot   []pglock.LockOption // options of the slots' locks

	mu         sync.Mutex
	queue      []*waiter
	keeping    bool               // the keeper is running
	blocked    bool               // the keeper has found that new callers must wait
	atGate     bool               // the keeper holds the gate
	lookAt     driver.Instant     // when the keeper looks for slots again
	every      time.Duration      // its last pause between two looks
	wake       chan struct{}      // wakes the keeper at the gate
	cancelGate context.CancelFunc // ends the keeper's wait for the gate; nil while it does not wait
	mine       []*pglock.Lock     // locks of the slots that are held here, by slot
	recent     []int              // slots that were given back here, the latest one last
	turn       turn
	unwatch    func() // ends what the log is told of the queue; nil while no call has to wait
}

// New returns the semaphore named by key, with n permits. Semaphores with equal keys on the same server are one
// semaphore, in all processes; a lock of that key is unrelated. An n below 1 or above 4,095 is an error.
func New(l *pglock.Locker, key pglock.Key, n int) (*Semaphore, error) {
	if l == nil {
		return nil, errors.New("pglock/semaphore: the Locker is nil")
	}
	if err := check(key, n); err != nil {
		return nil, err
	}
	s := &Semaphore{
		locker: l, key: key, n: n, name: lockkeys.SemaphoreName(key.String(), n),
		keys: keys(key, n), wake: make(chan struct{}, 1), mine: make([]*pglock.Lock, n+1),
	}
	s.turn.handoffs, s.turn.lasting = hooks.HandoffLimit(l)
	s.gate = []pglock.LockOption{hooks.WithUse(pglock.Use{Kind: hooks.UseSemaphoreGate, Key: key}).(pglock.LockOption)}
	s.slot = []pglock.LockOption{hooks.WithUse(s.use()).(pglock.LockOption)}
	return s, nil
}

func check(key pglock.Key, n int) error {
	if err := key.Check(); err != nil {
		return fmt.Errorf("pglock/semaphore: %w", err)
	}
	if n < 1 || n > lockkeys.MaxSlots {
		return fmt.Errorf("pglock/semaphore: %s with %d permits: the number must be between 1 and %d", shorttext.Quote(key.String()), n, lockkeys.MaxSlots)
	}
	return nil
}

// keys returns the keys of the gate and of n slots.
func keys(key pglock.Key, n int) []pglock.Key {
	id := lockkeys.Semaphore(key.ID())
	all := make([]pglock.Key, n+1)
	for slot := range all {
		class, object, _ := id.Key(slot).Pair()
		all[slot] = pglock.PairKey(class, object)
	}
	return all
}

// Waiting returns how many calls in this process wait for permits.
func (s *Semaphore) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}

// Acquire waits for a permit until ctx ends or [pglock.MaxWait] has passed; then the error matches
// [pglock.ErrNotAcquired], and also the context's error if that ended the wait. ctx bounds the wait and nothing else.
// [pglock.MaxHold] bounds how long the permit is held. Other LockOptions are errors. When Acquire returns an error, the
// caller holds nothing and has nothing to release. If the server cannot be reached, the error matches
// [pglock.ErrUnavailable], and the server frees a permit that it may still grant within a lease.
func (s *Semaphore) Acquire(ctx context.Context, opts ...pglock.LockOption) (*Permit, error) {
	return s.acquire(ctx, 1, false, opts)
}

// TryAcquire takes a permit if one is free and no call waits in line. Otherwise it fails at once with an error that
// matches [pglock.ErrNotAcquired], or after a few milliseconds if another process takes a permit at the same moment.
// MaxWait is an error here.
func (s *Semaphore) TryAcquire(ctx context.Context, opts ...pglock.LockOption) (*Permit, error) {
	return s.acquire(ctx, 1, true, opts)
}

// AcquireN waits for weight permits, as one [Permit]. It collects them at the head of the line, where no other call can
// overtake it, and gives them back if the wait fails. A weight below 1, or above the semaphore's number of permits, is
// an error.
func (s *Semaphore) AcquireN(ctx context.Context, weight int, opts ...pglock.LockOption) (*Permit, error) {
	return s.acquire(ctx, weight, false, opts)
}

// Do acquires a permit as [Semaphore.Acquire] does, runs fn, and releases the permit, even if fn panics or calls
// [runtime.Goexit]. fn's context ends with ctx or with the permit. If the permit was lost meanwhile the error matches
// [pglock.ErrLost], joined with fn's own error. fn may release the permit earlier.
func (s *Semaphore) Do(
	ctx context.Context, fn func(ctx context.Context, p *Permit) error, opts ...pglock.LockOption,
) (err error) {
	if fn == nil {
		return s.failed(1, errors.New("the function is nil"))
	}
	p, err := s.Acquire(ctx, opts...)
	if err != nil {
		return err
	}
	defer func() {
		releaseErr := p.Release(ctx)
		// A loss that fn itself returned, from context.Cause, is reported once.
		if releaseErr != nil && !errors.Is(releaseErr, pglock.ErrUnlocked) && !errors.Is(err, releaseErr) {
			err = errors.Join(releaseErr, err)
		}
	}()
	return fn(p.Context(ctx), p)
}

// acquire waits in the queue of this process until the keeper or a released permit serves it.
func (s *Semaphore) acquire(ctx context.Context, weight int, try bool, opts []pglock.LockOption) (*Permit, error) {
	if weight < 1 || weight > s.n {
		return nil, s.failed(weight, fmt.Errorf("the weight must be between 1 and %d", s.n))
	}
	o, err := readOptions(opts, try)
	if err != nil {
		return nil, s.failed(weight, err)
	}
	start := driver.Now()
	w := &waiter{ctx: context.WithoutCancel(ctx), since: start, weight: weight, try: try || o.Bounded && o.MaxWait == 0, ready: make(chan struct{}), waits: make(chan struct{})}
	if ctx.Err() != nil {
		return nil, s.explain(ctx, w, context.Cause(ctx), 0)
	}
	s.recordName()
	s.enter(w)
	awaited, err := s.await(ctx, w, o)
	waited := driver.Now().Sub(start)
	if err != nil {
		err = s.explain(ctx, w, err, waited)
	}
	s.reportEnd(ctx, w.try, awaited, waited, err)
	if err != nil {
		return nil, err
	}
	p := &Permit{sem: s, slots: w.got}
	if o.MaxHold > 0 {
		p.limit(o.MaxHold)
	}
	return p, nil
}

func readOptions(opts []pglock.LockOption, try bool) (hooks.Settings, error) {
	o, err := hooks.ReadLockOptions(opts)
	switch {
	case err != nil:
		return o, err
	case o.Shared:
		return o, errors.New("a semaphore takes no Shared: its slots are held exclusively")
	case o.Outage > 0:
		return o, errors.New("RetryUnavailable does not apply to a semaphore: an outage fails all waiters, which have to ask again")
	case try && o.Bounded:
		return o, errors.New("MaxWait contradicts TryAcquire, which never waits")
	}
	return o, nil
}

// errMaxWait ends a wait when MaxWait has passed.
var errMaxWait = errors.New("MaxWait has passed")

// await waits until w is served or fails, or gives up its place. It notifies the Observer only of a real wait.
//
// If the end of ctx and a grant race, the first one under mu wins: a waiter that has been served by then has its
// permit.
func (s *Semaphore) await(ctx context.Context, w *waiter, o hooks.Settings) (awaited bool, err error) {
	var bound <-chan time.Time
	if o.Bounded && !w.try {
		timer := time.NewTimer(o.MaxWait)
		defer timer.Stop()
		bound = timer.C
	}
	observed, ended, waits := ctx, error(nil), w.waits // Await makes another ctx
	for ended == nil {
		select {
		case <-w.ready:
			return awaited, w.err
		case <-waits:
			if waits = nil; w.try {
				continue
			}
			var end func()
			if ctx, end, ended = hooks.Await(ctx, s.locker, s.key, s.keys[1:], w.weight); ended != nil {
				continue
			}
			defer end()
			hooks.Observe(observed, s.locker, s.event(pglock.EventWaitStarted))
			awaited = true
		case <-bound:
			ended = errMaxWait
		case <-ctx.Done():
			ended = context.Cause(ctx)
		}
	}
	if s.leave(w) {
		return awaited, ended
	}
	<-w.ready
	return awaited, w.err
}

// explain returns the error of a failed acquisition.
func (s *Semaphore) explain(ctx context.Context, w *waiter, err error, waited time.Duration) error {
	wait := &pglock.WaitError{Keys: []pglock.Key{s.key}, Waited: waited}
	switch {
	case w.try && errors.Is(err, pglock.ErrNotAcquired):
		wait.Waited = 0
		return s.failed(w.weight, wait)
	case errors.Is(err, errMaxWait):
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		wait.Err = err
		if !errors.Is(err, ctx.Err()) {
			wait.Err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		if errors.Is(err, context.Canceled) { // a caller that cancelled does not need the holders
			return s.failed(w.weight, wait)
		}
	default:
		return s.failed(w.weight, err)
	}
	wait.Holders = hooks.WhoHolds(s.locker, s.keys[1:], wait.Err != nil).([]pglock.Holder)
	return s.failed(w.weight, wait)
}

func (s *Semaphore) failed(weight int, err error) error {
	return fmt.Errorf("pglock/semaphore: acquire %d of %d permits of %s: %w", weight, s.n, shorttext.Quote(s.key.String()), err)
}
