package redisfallback

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// waiters is where a Locker's waiters rest until a message wakes them. A message can get lost, a holder can die, and a
// client that is not ours sends none: so a Locker also looks at the keys, all together and rarely.
type waiters struct {
	backend *Backend

	mu       sync.Mutex
	byNumber map[string]*waiter // by number
	subs     []*redis.PubSub
	shards   shards // instead of subs, on a Cluster that has them
	running  bool
	closed   bool
	earlier  chan struct{} // a waiter wants to be looked at earlier
	ctx      context.Context
	stop     context.CancelFunc
	stopped  sync.WaitGroup
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
	maxPollInterval = 2 * time.Second // after which a key is looked at, whatever was heard of it
	lineAgain       = lineFor / 3 * time.Millisecond
	keysPerGet      = 512

	pollsPerSecond = 50 // on a Cluster
)

// pollIntervalLocked is the time between two looks at the same key. On a Cluster each key costs a command, so that many are
// looked at less often.
func (ws *waiters) pollIntervalLocked() time.Duration {
	every := min(maxPollInterval, ws.backend.env.Lease/4)
	if ws.backend.nodes[0].cluster {
		every = max(every, time.Duration(len(ws.byNumber))*time.Second/pollsPerSecond)
	}
	return every
}

// enter lets somebody in who is about to stand in line for the grant's key i.
func (ws *waiters) enter(g *grant, i int) *waiter {
	now := driver.Now()
	w := &waiter{grant: g, names: g.keys[i].names, wake: make(chan struct{}, 1), due: driver.Never, fresh: now}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.byNumber == nil {
		ws.byNumber, ws.earlier = map[string]*waiter{}, make(chan struct{}, 1)
		ws.ctx, ws.stop = context.WithCancel(context.Background())
	}
	ws.byNumber[g.number()] = w
	if ws.closed {
		return w
	}
	ws.subscribeLocked(w)
	if !ws.running {
		ws.running = true
		ws.stopped.Go(ws.run)
	}
	return w
}

func (ws *waiters) leave(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.byNumber, w.grant.number())
}

// schedule has w's key looked at when the holder's lease is over, or at the next common look.
func (ws *waiters) schedule(w *waiter, busy time.Duration) {
	now := driver.Now()
	ws.mu.Lock()
	w.due = nextPoll(now, ws.pollIntervalLocked())
	early := busy > 0 && busy < w.due.Sub(now)
	if early {
		w.due = now.Add(busy + time.Millisecond)
	}
	ws.mu.Unlock()
	if early {
		select {
		case ws.earlier <- struct{}{}:
		default:
		}
	}
}

// nextPoll is the next multiple of every, at which all look together.
func nextPoll(now driver.Instant, every time.Duration) driver.Instant {
	return (now/driver.Instant(every) + 1) * driver.Instant(every)
}

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (ws *waiters) wake(number string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.byNumber[number]; w != nil {
		w.signal()
	}
}

func (ws *waiters) wakeAll() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.byNumber {
		w.signal()
	}
}

// wakeSlot wakes those who wait in a slot.
func (ws *waiters) wakeSlot(tag string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.byNumber {
		if w.names.tag == tag {
			w.signal()
		}
	}
}

// subscribeLocked listens to what wakes w: in its slot, or on every node, from the first waiter on.
func (ws *waiters) subscribeLocked(w *waiter) {
	if ws.backend.sharded.Load() {
		ws.shards.want(w.names.tag)
		return
	}
	if ws.subs != nil {
		return
	}
	for _, n := range ws.backend.nodes {
		sub := n.client.Subscribe(ws.ctx)
		ws.subs = append(ws.subs, sub)
		ws.stopped.Go(func() { ws.listen(sub) })
	}
}

// wakeChannel and a Locker's instance are the name of its channel.
const wakeChannel = "pglock:wake:"

// listen wakes those who are called. Whenever it has subscribed again it wakes all: what was sent before is lost.
func (ws *waiters) listen(sub *redis.PubSub) {
	if err := sub.Subscribe(ws.ctx, wakeChannel+ws.backend.instance); errors.Is(err, redis.ErrClosed) {
		return
	} // after any other error the channel below tries again
	for message := range sub.ChannelWithSubscriptions() {
		switch m := message.(type) {
		case *redis.Message:
			ws.wake(m.Payload)
		case *redis.Subscription:
			ws.wakeAll()
		}
	}
}

// run looks at keys when that is due, while anybody waits.
func (ws *waiters) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ws.ctx.Done():
			return
		case <-ws.earlier:
		case <-timer.C:
		}
		next, more := ws.pollDue()
		if !more {
			return
		}
		timer.Reset(next)
	}
}

// pollDue looks at what is due, and says when to do so again; more is false when nobody waits.
func (ws *waiters) pollDue() (next time.Duration, more bool) {
	now := driver.Now()
	var due, stale []*waiter
	ws.mu.Lock()
	every := ws.pollIntervalLocked()
	next = every
	for _, w := range ws.byNumber {
		if w.due <= now {
			due = append(due, w)
			w.due = nextPoll(now, every)
		}
		if now.Sub(w.fresh) >= lineAgain {
			stale = append(stale, w)
			w.fresh = now
		}
		next = min(next, w.due.Sub(now))
		ws.subscribeLocked(w)
	}
	ws.running = len(ws.byNumber) > 0
	more = ws.running
	ws.mu.Unlock()
	if ws.backend.redlock() {
		for _, w := range due {
			w.signal()
		}
		return next, more
	}
	ws.pollKeys(due)
	ws.refreshTTL(stale)
	return next, more
}

// pollKeys looks at the keys of waiters, and wakes those who may have a chance, or whose server does not answer.
func (ws *waiters) pollKeys(waiters []*waiter) {
	n := ws.backend.nodes[0]
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
		if !ok || i >= len(values) || w.mayAcquire(values[i]) {
			w.signal()
		}
	}
}

// mayAcquire tells whether the lock's value is one with which w may get it: none, w's own, or one of a shared lock for
// another reader.
func (w *waiter) mayAcquire(value any) bool {
	return value == nil || value == w.grant.token || w.grant.shared && value == sharedValue
}

// refreshTTL keeps the lines from being forgotten in which waiters stand.
func (ws *waiters) refreshTTL(waiters []*waiter) {
	for _, w := range waiters {
		line := w.names.writers()
		if w.grant.shared {
			line = w.names.readers()
		}
		ws.backend.nodes[0].submit(&call{
			request: request{args: []any{"pexpire", line, lineFor}},
			then: func(c *call) {
				if c.value != int64(1) {
					w.signal()
				}
			},
		})
	}
}

func (ws *waiters) close() error {
	ws.mu.Lock()
	var err error
	if !ws.closed {
		ws.closed = true
		if ws.stop != nil {
			ws.stop()
		}
		for _, sub := range ws.subs {
			if closeErr := sub.Close(); closeErr != nil && err == nil {
				err = closeErr
			}
		}
	}
	ws.mu.Unlock()
	err = errors.Join(err, ws.shards.close())
	ws.stopped.Wait()
	return err
}
