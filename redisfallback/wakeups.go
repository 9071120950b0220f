package redisfallback

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/timing"
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

// wakeAll wakes all waiters.
func (ws *waiters) wakeAll() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.byNumber {
		w.signal()
	}
}

// uncounted begins the name of a Locker on a Cluster, where no server can count its subscriptions: they may be at another one.
const uncounted = "~"

// wakeChannel, followed by a Locker's name, is the name of its channel.
const wakeChannel = "pglock:wake:"

// listen subscribes to the Locker's channel on every node.
func (ws *waiters) listen() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.listens || ws.closed {
		return
	}
	ws.listens = true
	for _, n := range ws.backend.nodes {
		ws.stopped.Go(func() { ws.listenAt(n) })
	}
}

// listenAt listens on one node, over one connection after the other.
func (ws *waiters) listenAt(n *node) {
	for ws.ctx.Err() == nil {
		sub := n.client.Subscribe(ws.ctx)
		if !ws.keep(sub) {
			_ = sub.Close() // it has no connection yet
			return
		}
		heard := false
		if sub.Subscribe(ws.ctx, wakeChannel+ws.backend.locker) == nil {
			heard = ws.receive(sub, func(message any) {
				switch m := message.(type) {
				case *redis.Message:
					ws.wake(m.Payload)
				case *redis.Subscription:
					ws.wakeAll() // earlier messages are lost
				}
			})
		}
		ws.end(sub)
		if !heard {
			ws.rest()
		}
	}
}

// closer is a subscription.
type closer interface{ Close() error }

// keep makes close end a subscription. It returns false if the Locker is closed.
func (ws *waiters) keep(sub closer) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if !ws.closed {
		ws.subs[sub] = struct{}{}
	}
	return !ws.closed
}

// end closes a subscription that has failed.
func (ws *waiters) end(sub closer) {
	_ = sub.Close()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.subs, sub)
}

// rest waits before the next attempt to subscribe.
func (ws *waiters) rest() {
	select {
	case <-time.After(timing.Jittered(time.Second)):
	case <-ws.ctx.Done():
	}
}

// receive handles what comes until the connection fails, or does not answer when it has been silent. It reports whether
// anything came. Package redis notices neither that the user was without the right to subscribe, nor that the network has
// lost a connection without ending it.
func (ws *waiters) receive(sub *redis.PubSub, handle func(any)) (heard bool) {
	for silent := false; ; {
		message, err := sub.ReceiveTimeout(ws.ctx, min(maxSilence, ws.backend.env.Lease))
		timeout, isNet := errors.AsType[net.Error](err)
		switch {
		case err == nil:
			heard, silent = true, false
			handle(message)
		case isNet && timeout.Timeout() && !silent && sub.Ping(ws.ctx) == nil:
			silent = true
		default:
			return heard
		}
	}
}

// maxSilence is how long a subscription may be silent before it is pinged, if the lease is not shorter.
const maxSilence = 5 * time.Second

// close ends the subscriptions and what serves the waiters. Package redis locks a subscription while it dials, which a
// silent network can draw out. close waits for that until ctx ends; then it ends in the background.
func (ws *waiters) close(ctx context.Context) error {
	ws.mu.Lock()
	ws.closed = true
	if ws.stop != nil {
		ws.stop()
	}
	subs := ws.subs
	ws.subs = nil
	ws.mu.Unlock()
	ended := make(chan error, 1)
	go func() {
		var err error
		for sub := range subs {
			if closeErr := sub.Close(); !errors.Is(closeErr, redis.ErrClosed) {
				err = errors.Join(err, closeErr)
			}
		}
		ws.stopped.Wait()
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}
