package pglock

import (
	"context"
)

// Context returns a context that ends with parent or with the lock, whichever ends first; [context.Cause] of it is then
// the parent's cause or the lock's [Lock.Err]. It needs no cancel function: the end of the lock frees it. Its own Err
// compares the clock, as Lock.Err does, so that a process that was frozen beyond the lease does not go on for a moment
// before its timers run; contexts derived from it learn of the end as usual, through their Done channels.
//
// When parent ends the lock stays held: unlock it.
func (k *Lock) Context(parent context.Context) context.Context {
	inner, cancel := context.WithCancelCause(parent)
	c := &lockContext{Context: inner, lock: k, cancel: cancel}
	k.mu.Lock()
	err := k.err
	if err == nil {
		if k.contexts == nil {
			k.contexts = map[*lockContext]struct{}{}
		}
		k.contexts[c] = struct{}{}
	}
	k.mu.Unlock()
	if err != nil {
		cancel(err)
		return c
	}
	if parent.Done() != nil { // a parent that ends first leaves nothing behind in the lock
		context.AfterFunc(inner, func() { k.forgetContext(c) })
	}
	return c
}

func (k *Lock) forgetContext(c *lockContext) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.contexts, c)
}

// lockContext ends with the lock.
type lockContext struct {
	context.Context
	lock   *Lock
	cancel context.CancelCauseFunc
}

func (c *lockContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if c.lock.Err() == nil { // ends the lock, and so this context, when its time is over
		return nil
	}
	// The lock is marked as ended before its contexts are: whoever asks in between must get the same answer.
	c.cancel(c.lock.Err())
	return c.Context.Err()
}
