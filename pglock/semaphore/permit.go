package semaphore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock"
)

// Permit is one of a semaphore's permits, or several that were acquired as one. It lasts until it is released or
// lost. All methods may be called concurrently, and from any goroutine.
type Permit struct {
	sem   *Semaphore
	slots []held // as many as its weight

	mu       sync.Mutex
	released bool
}

// Err returns nil while the permit is held. Then it is [pglock.ErrUnlocked], or a *[pglock.LostError] that names the
// slot. It checks the clock, as [pglock.Lock.Err] does. A permit of several slots is lost when one of them is.
func (p *Permit) Err() error {
	for _, h := range p.slots {
		if err := h.lock.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Context returns a context that ends with parent or with the permit, whichever ends first; [context.Cause] of it is
// then the parent's cause or the permit's Err. It needs no cancel function.
func (p *Permit) Context(parent context.Context) context.Context {
	ctx := parent
	for _, h := range p.slots {
		ctx = h.lock.Context(ctx)
	}
	if len(p.slots) == 1 {
		return ctx
	}
	return &severalContext{ctx, p}
}

// severalContext is a context whose Err checks the clock for all slots.
type severalContext struct {
	context.Context
	permit *Permit
}

// Parent implements [hooks.DerivedContext].
func (c *severalContext) Parent() context.Context { return c.Context }

func (c *severalContext) Err() error {
	if p := c.permit.Err(); p != nil && c.Context.Err() == nil {
		<-c.Context.Done() // a slot has ended, and its contexts have just ended or are about to
	}
	return c.Context.Err()
}

// Verify asks the server whether the permit is still held, as [pglock.Lock.Verify] does for a lock.
func (p *Permit) Verify(ctx context.Context) error {
	for _, h := range p.slots {
		if err := h.lock.Verify(ctx); err != nil {
			return fmt.Errorf("pglock/semaphore: verify a permit of %s: %w", shorttext.Quote(p.sem.key.String()), err)
		}
	}
	return nil
}

// GuardTx ties tx to the permit, as [pglock.Lock.GuardTx] does to a lock: tx cannot commit after the permit was lost
// and its slot was taken by another holder that guards its transactions too. It guards tx by each slot, one after
// another.
func (p *Permit) GuardTx(ctx context.Context, tx pgx.Tx) error {
	for _, h := range p.slots {
		if err := h.lock.GuardTx(ctx, tx); err != nil {
			return fmt.Errorf("pglock/semaphore: guard a transaction by a permit of %s: %w", shorttext.Quote(p.sem.key.String()), err)
		}
	}
	return nil
}

// Release releases the permit, to the next waiter of this process or to the server. It returns nil if the permit was
// held until now, an error that matches [pglock.ErrLost] if it was lost, and [pglock.ErrUnlocked] on a second call. Any
// other error means that the server did not confirm in time. Like [pglock.Lock.Unlock] it uses the values of ctx only.
func (p *Permit) Release(ctx context.Context) error {
	if !p.end() {
		return p.failed(pglock.ErrUnlocked)
	}
	errs := make([]error, len(p.slots))
	if len(p.slots) == 1 {
		errs[0] = p.sem.giveBack(ctx, p.slots[0])
	} else {
		var releasing sync.WaitGroup
		for i, h := range p.slots {
			releasing.Go(func() { errs[i] = p.sem.giveBack(ctx, h) })
		}
		releasing.Wait()
	}
	if err := errors.Join(errs...); err != nil {
		return p.failed(err)
	}
	return nil
}

// end reports whether this is the first Release. Later ones must not reach the locks: giveBack would change the
// records of slots that other permits of this process may hold by now.
func (p *Permit) end() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.released
	p.released = true
	return first
}

// limit ends the permit d from now.
func (p *Permit) limit(d time.Duration) {
	for _, h := range p.slots {
		_ = h.lock.Extend(d) // a lost lock needs no limit
	}
}

func (p *Permit) failed(err error) error {
	return fmt.Errorf("pglock/semaphore: release a permit of %s: %w", shorttext.Quote(p.sem.key.String()), err)
}
