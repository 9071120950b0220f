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
	if parent.Done() == nil {
		return k.contextWithValues(parent)
	}
	c := k.newContext(parent)
	context.AfterFunc(c.Context, func() { k.forgetContext(c) }) // a parent that ends first leaves nothing behind
	return c
}

// newContext makes a context that the end of the lock ends.
func (k *Lock) newContext(parent context.Context) *lockContext {
	inner, cancel := context.WithCancelCause(parent)
	c := &lockContext{Context: inner, lock: k, cancel: cancel}
	k.mu.Lock()
	err := k.err
	if err == nil {
		x := k.lazyLocked()
		if x.contexts == nil {
			x.contexts = map[*lockContext]struct{}{}
		}
		x.contexts[c] = struct{}{}
	}
	k.mu.Unlock()
	if err != nil {
		cancel(err)
	}
	return c
}

// contextWithValues is Context for a parent that does not end. All of them share one, so that a lock which is held for
// weeks does not keep every one that was ever asked for.
func (k *Lock) contextWithValues(parent context.Context) context.Context {
	k.mu.Lock()
	shared := k.lazyLocked().endless
	k.mu.Unlock()
	if shared == nil { // two callers may make one each: the second stays
		shared = k.newContext(context.Background())
		k.mu.Lock()
		k.lazy.endless = shared
		k.mu.Unlock()
	}
	if parent == context.Background() {
		return shared
	}
	return &valuesContext{lockContext: shared, values: parent}
}

// valuesContext is a lockContext with the values of another context.
type valuesContext struct {
	*lockContext
	values context.Context
}

func (c *valuesContext) Value(key any) any {
	if key == (ancestry{}) {
		return true
	}
	if own := c.lockContext.Value(key); own != nil {
		return own
	}
	return c.values.Value(key)
}

func (k *Lock) forgetContext(c *lockContext) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.lazyLocked().contexts, c)
}

// lockContext ends with the lock.
type lockContext struct {
	context.Context
	lock   *Lock
	cancel context.CancelCauseFunc
}

// Value answers that the context descends from a Lock's, and otherwise as its parent does.
func (c *lockContext) Value(key any) any {
	if key == (ancestry{}) {
		return true
	}
	return c.Context.Value(key)
}

func (c *lockContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	if c.lock.Err() == nil { // ends the lock, and so this context, when its time is over
		return nil
	}
	// The lock is marked as ended before its contexts are: a caller that asks in between must get the same answer.
	c.cancel(c.lock.Err())
	return c.Context.Err()
}

// observedContext ends as Context does, and has the values of another one, which an Observer has made of it.
type observedContext struct {
	context.Context
	values context.Context
}

func (c *observedContext) Value(key any) any { return c.values.Value(key) }
