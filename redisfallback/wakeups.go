package redisfallback

import (
	"errors"

	"github.com/redis/go-redis/v9"
)

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
