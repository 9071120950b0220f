package redisfallback

import "time"

// Near the server a node has one flush in flight, and calls that are made meanwhile share the next one: that costs both
// sides less than sending them at once. It has up to maxInFlight when there is more to gain from that: far from the
// server, where a call would wait long for an answer to others, and when enough calls wait, so that client and server
// work at the same time. Calls for which there is no room go with the next flush.
const (
	maxInFlight = 4
	far         = 250 * time.Microsecond
	enough      = 32
	late        = 10 * time.Millisecond
)

// window bounds the flushes in flight. The node's mu guards it.
type window struct {
	inFlight  int
	roundTrip time.Duration // the shortest so far; long before the first one
	watch     *time.Timer   // runs out when nothing has been answered for long
}

// openLocked reports whether one more flush may be sent now. A Cluster counts as far: one slow server of it must not delay
// the calls for the others.
func (n *node) openLocked() bool {
	return n.inFlight == 0 ||
		n.inFlight < maxInFlight && (n.cluster || n.roundTrip > far || len(n.waiting) >= enough)
}

// beginLocked counts one more flush.
func (n *node) beginLocked() {
	n.inFlight++
	n.flushing.Add(1)
	n.watchLocked()
}

// startLocked starts a flush if calls are waiting and it may be sent.
func (n *node) startLocked() {
	if len(n.waiting) > 0 && n.openLocked() {
		n.beginLocked()
		go n.flushLoop()
	}
}

// heardLocked notes how long an answer took. Only the shortest time counts: a large flush takes long near the server too.
func (n *node) heardLocked(took time.Duration) { n.roundTrip = min(n.roundTrip, took) }

// watchLocked watches that something begins or ends. If nothing does for long while a flush is in flight, its connection
// may be broken, or the server another one than before, after a failover. The server counts as far then, until a shorter
// round trip. So calls near the server are not delayed much longer by a broken connection than they would be far from it.
func (n *node) watchLocked() {
	if n.watch != nil {
		n.watch.Reset(late)
		return
	}
	n.watch = time.AfterFunc(late, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.inFlight > 0 {
			n.roundTrip = max(n.roundTrip, late)
			n.startLocked()
		}
	})
}
