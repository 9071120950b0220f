package pglock

import (
	"context"
)

// Context returns a context that ends with parent or with the lock, whichever ends first. Its [context.Cause] is
// then the parent's cause or the lock's [Lock.Err]. It needs no cancel function: the end of the lock frees it. Its
// Err checks the clock, as Lock.Err does. So a process that was frozen beyond the lease learns of it before its
// timers run. Derived contexts end as usual, through their Done channels. If parent ends the lock stays held: unlock
// it.
func (l *Lock) Context(parent context.Context) context.Context {
	if parent.Done() == nil {
		return l.contextWithValues(parent)
	}
	c := l.newContext(parent)
	context.AfterFunc(c.Context, func() { l.forgetContext(c) }) // a parent that ends first leaves nothing behind
	return c
}

// newContext returns a context that ends with the lock.
func (l *Lock) newContext(parent context.Context) *lockContext {
	inner, cancel := context.WithCancelCause(parent)
	c := &lockContext{Context: inner, lock: l, cancel: cancel}
	l.mu.Lock()
	err := l.err
	if err == nil {
		if l.contexts == nil {
			l.contexts = map[*lockContext]struct{}{}
		}
		l.contexts[c] = struct{}{}
	}
	l.mu.Unlock()
	if err != nil {
		cancel(err)
	}
	return c
}

// contextWithValues is Context for a parent that does not end. All such contexts share one, so that a lock that is held
// for weeks does not accumulate them.
func (l *Lock) contextWithValues(parent context.Context) context.Context {
	l.mu.Lock()
	shared := l.endless
	l.mu.Unlock()
	if shared == nil { // two callers may make one each: the second stays
		shared = l.newContext(context.Background())
		l.mu.Lock()
		l.endless = shared
		l.mu.Unlock()
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
		return c.lock
	}
	if own := c.lockContext.Value(key); own != nil {
		return own
	}
	return c.values.Value(key)
}

func (l *Lock) forgetContext(c *lockContext) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.contexts, c)
}

// lockContext is a context that ends with the lock.
type lockContext struct {
	context.Context
	lock   *Lock
	cancel context.CancelCauseFunc
}

// Value also returns the Lock that the context descends from.
func (c *lockContext) Value(key any) any {
	if key == (ancestry{}) {
		return c.lock
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
	// The lock is marked as ended before its contexts are. A caller that asks in between must get the same answer.
	c.cancel(c.lock.Err())
	return c.Context.Err()
}

// observedContext ends as its Context does, and has the values of another one, which an Observer returned.
type observedContext struct {
	context.Context
	values context.Context
}

func (c *observedContext) Value(key any) any { return c.values.Value(key) }

// Parent implements [hooks.DerivedContext].
func (c *observedContext) Parent() context.Context { return c.Context }
