package redisfallback

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// waitroom is where a Locker's waiters rest until a message wakes them. A message can get lost, a holder can die, and a
// client that is not ours sends none: so the room also looks at the keys, all together and rarely.
type waitroom struct {
	backend *Backend

	mu      sync.Mutex
	waiters map[string]*waiter // by number
	subs    []*redis.PubSub
	shards  shards // instead of subs, on a Cluster that has them
	running bool
	closed  bool
	kick    chan struct{} // a waiter wants to be looked at earlier
	ctx     context.Context
	stop    context.CancelFunc
	stopped sync.WaitGroup
}

// waiter is one who waits for one key.
type waiter struct {
	grant *grant
	names names
	wake  chan struct{} // holds one token
	due   driver.Instant
	fresh driver.Instant // when its line was last renewed
}

const (
	maxLook    = 2 * time.Second // after which a key is looked at, whatever was heard of it
	lineAgain  = lineFor / 3 * time.Millisecond
	keysPerGet = 512

	looksPerSecond = 50 // on a Cluster
)

// lookEvery is the time between two looks at the same key. On a Cluster each key costs a command, so that many are
// looked at less often. It runs under mu.
func (r *waitroom) lookEvery() time.Duration {
	every := min(maxLook, r.backend.env.Lease/4)
	if r.backend.nodes[0].cluster {
		every = max(every, time.Duration(len(r.waiters))*time.Second/looksPerSecond)
	}
	return every
}

// enter lets somebody in who is about to stand in line for the grant's key i.
func (r *waitroom) enter(g *grant, i int) *waiter {
	now := driver.Now()
	w := &waiter{grant: g, names: g.keys[i].names, wake: make(chan struct{}, 1), due: driver.Never, fresh: now}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiters == nil {
		r.waiters, r.kick = map[string]*waiter{}, make(chan struct{}, 1)
		r.ctx, r.stop = context.WithCancel(context.Background())
	}
	r.waiters[g.number()] = w
	if r.closed {
		return w
	}
	r.subscribe(w)
	if !r.running {
		r.running = true
		r.stopped.Go(r.run)
	}
	return w
}

func (r *waitroom) leave(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiters, w.grant.number())
}

// schedule has w's key looked at when the holder's lease is over, or at the next common look.
func (r *waitroom) schedule(w *waiter, busy time.Duration) {
	now := driver.Now()
	r.mu.Lock()
	w.due = nextLook(now, r.lookEvery())
	early := busy > 0 && busy < w.due.Sub(now)
	if early {
		w.due = now.Add(busy + time.Millisecond)
	}
	r.mu.Unlock()
	if early {
		select {
		case r.kick <- struct{}{}:
		default:
		}
	}
}

// nextLook is the next multiple of every, at which all look together.
func nextLook(now driver.Instant, every time.Duration) driver.Instant {
	return (now/driver.Instant(every) + 1) * driver.Instant(every)
}

func (w *waiter) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (r *waitroom) rouse(number string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.waiters[number]; w != nil {
		w.rouse()
	}
}

func (r *waitroom) rouseAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.waiters {
		w.rouse()
	}
}

// rouseSlot wakes those who wait in a slot.
func (r *waitroom) rouseSlot(tag string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.waiters {
		if w.names.tag == tag {
			w.rouse()
		}
	}
}

// subscribe listens to what wakes w: in its slot, or on every node, from the first waiter on. It runs under mu.
func (r *waitroom) subscribe(w *waiter) {
	if r.backend.sharded.Load() {
		r.shards.want(w.names.tag)
		return
	}
	if r.subs != nil {
		return
	}
	for _, n := range r.backend.nodes {
		sub := n.client.Subscribe(r.ctx)
		r.subs = append(r.subs, sub)
		r.stopped.Go(func() { r.listen(sub) })
	}
}

// wakeChannel and a Locker's instance are the name of its channel.
const wakeChannel = "pglock:wake:"

// listen wakes those who are called. Whenever it has subscribed again it wakes all: what was sent before is lost.
func (r *waitroom) listen(sub *redis.PubSub) {
	if err := sub.Subscribe(r.ctx, wakeChannel+r.backend.instance); errors.Is(err, redis.ErrClosed) {
		return
	} // after any other error the channel below tries again
	for message := range sub.ChannelWithSubscriptions() {
		switch m := message.(type) {
		case *redis.Message:
			r.rouse(m.Payload)
		case *redis.Subscription:
			r.rouseAll()
		}
	}
}

// run looks at keys when that is due, while anybody waits.
func (r *waitroom) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-r.kick:
		case <-timer.C:
		}
		next, more := r.look()
		if !more {
			return
		}
		timer.Reset(next)
	}
}

// look looks at what is due, and says when to do so again; more is false when nobody waits.
func (r *waitroom) look() (next time.Duration, more bool) {
	now := driver.Now()
	var due, stale []*waiter
	r.mu.Lock()
	every := r.lookEvery()
	next = every
	for _, w := range r.waiters {
		if w.due <= now {
			due = append(due, w)
			w.due = nextLook(now, every)
		}
		if now.Sub(w.fresh) >= lineAgain {
			stale = append(stale, w)
			w.fresh = now
		}
		next = min(next, w.due.Sub(now))
		r.subscribe(w)
	}
	r.running = len(r.waiters) > 0
	more = r.running
	r.mu.Unlock()
	if r.backend.redlock() {
		for _, w := range due {
			w.rouse()
		}
		return next, more
	}
	r.peek(due)
	r.prolong(stale)
	return next, more
}

// peek looks at the keys of waiters, and wakes those who may have a chance, or whose server does not answer.
func (r *waitroom) peek(waiters []*waiter) {
	n := r.backend.nodes[0]
	size := keysPerGet
	if n.cluster {
		size = 1 // they are in many slots
	}
	var calls []*call
	for len(waiters) > 0 {
		some := waiters[:min(size, len(waiters))]
		waiters = waiters[len(some):]
		args := []any{"mget"}
		for _, w := range some {
			args = append(args, w.names.lock)
		}
		calls = append(calls, &call{request: request{args: args}, then: func(c *call) { decide(some, c) }})
	}
	n.submit(calls...)
}

func decide(waiters []*waiter, c *call) {
	values, ok := c.value.([]any)
	for i, w := range waiters {
		if !ok || i >= len(values) || w.hopes(values[i]) {
			w.rouse()
		}
	}
}

// hopes tells whether the lock's value is one with which w may get it: none, w's own, or one of a shared lock for
// another reader.
func (w *waiter) hopes(value any) bool {
	return value == nil || value == w.grant.token || w.grant.shared && value == sharedValue
}

// prolong keeps the lines from being forgotten in which waiters stand.
func (r *waitroom) prolong(waiters []*waiter) {
	for _, w := range waiters {
		line := w.names.writers()
		if w.grant.shared {
			line = w.names.readers()
		}
		r.backend.nodes[0].submit(&call{
			request: request{args: []any{"pexpire", line, lineFor}},
			then: func(c *call) {
				if c.value != int64(1) {
					w.rouse()
				}
			},
		})
	}
}

func (r *waitroom) close() error {
	r.mu.Lock()
	var err error
	if !r.closed {
		r.closed = true
		if r.stop != nil {
			r.stop()
		}
		for _, sub := range r.subs {
			if closeErr := sub.Close(); closeErr != nil && err == nil {
				err = closeErr
			}
		}
	}
	r.mu.Unlock()
	err = errors.Join(err, r.shards.close())
	r.stopped.Wait()
	return err
}
