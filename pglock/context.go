package pglock

import (
	"context"
	"time"
)

// Context returns a context that ends with parent or with the lock, whichever ends first. Its [context.Cause] is
// then the parent's cause or the lock's [Lock.Err]. It needs no cancel function: the end of the lock frees it. Its
// Err checks the clock, as Lock.Err does. So a process that was frozen beyond the lease learns of it before its
// timers run. Derived contexts end as usual, through their Done channels. If parent ends the lock stays held: unlock
// it.
func (l *Lock) Context(parent context.Context) context.Context {
	if parent.Done() == nil { // of these the lock keeps one, however long it is held
		life := l.lifetime()
		return &lockContext{life.Context, l, parent, life.end}
	}
	own, end := context.WithCancelCause(parent) // its Err is that of the parent, such as DeadlineExceeded
	c := &lockContext{own, l, parent, end}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		end(l.err)
		return c
	}
	if l.contexts == nil {
		l.contexts = map[*lockContext]struct{}{}
	}
	l.contexts[c] = struct{}{}
	context.AfterFunc(own, func() { l.forgetContext(c) }) // a lock that lasts longer than the parent keeps nothing
	return c
}

func (l *Lock) forgetContext(c *lockContext) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.contexts, c)
}

// lifetime returns the context that ends with the lock only.
func (l *Lock) lifetime() *lockContext {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life == nil {
		endless := context.Background()
		own, end := context.WithCancelCause(endless)
		l.life = &lockContext{own, l, endless, end}
		if l.err != nil {
			end(l.err)
		}
	}
	return l.life
}

// lockContext is a context that ends with the lock, and with its parent, whose values it has.
type lockContext struct {
	context.Context // ends with the lock and, unless that has no end, with the parent
	lock            *Lock
	parent          context.Context
	end             context.CancelCauseFunc
}

// Deadline is the parent's.
func (c *lockContext) Deadline() (time.Time, bool) { return c.parent.Deadline() }

// Value also returns the Lock that the context descends from.
func (c *lockContext) Value(key any) any {
	if key == (ancestry{}) {
		return c.lock
	}
	if own := c.Context.Value(key); own != nil || c.parent.Done() != nil { // what package context knows itself by, or all values
		return own
	}
	return c.parent.Value(key)
}

// Err looks itself: the lock, which may have to look at the clock, and the parent are marked as ended before this
// context is. A caller that asks in between must get the same answer.
func (c *lockContext) Err() error {
	switch {
	case c.Context.Err() != nil:
	case c.parent.Err() != nil:
		<-c.Context.Done() // which it ends just now
	default:
		if lost := c.lock.Err(); lost != nil {
			c.end(lost)
		}
	}
	return c.Context.Err()
}
