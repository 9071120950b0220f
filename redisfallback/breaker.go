package redisfallback

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

// One of several nodes that does not answer must not cost the others memory or time. After downAfter flushes in a row
// without any answer it is down: calls fail at once, and one goroutine, the prober, pings it every probeEvery. Before
// that, the number of calls abandoned by rounds that the other nodes have decided is bounded.
// A single node has no breaker: no other node can answer in its place, so its callers wait for it.
const (
	downAfter    = 3
	probeEvery   = 200 * time.Millisecond
	maxAbandoned = 4096 // abandoned calls in flight to a node; with more, new calls fail at once
	maxUnsent    = 4096 // releases that are kept for a node that is down; more end with their leases
)

var (
	errDown = fmt.Errorf("it has not answered %d times in a row, and is probed every %v", downAfter, probeEvery)
	errBusy = fmt.Errorf("%d calls that the other nodes decided without it are still unanswered", maxAbandoned)
)

// breaker is the state of one of several nodes. The node's mu guards it.
type breaker struct {
	enabled  bool
	failures int  // flushes in a row without an answer
	down     bool // then the prober runs
	probes   bool // the prober has not ended
	stopped  bool // the backend is closed
	stop     chan struct{}

	abandoned int     // calls that have not ended and have no caller any more
	unsent    []*call // releases that could not be sent; they go first when the node answers again
}

// refusalLocked returns why the node takes no calls now, or nil.
func (b *breaker) refusalLocked() error {
	switch {
	case !b.enabled:
		return nil
	case b.down:
		return errDown
	case b.abandoned >= maxAbandoned:
		return errBusy
	}
	return nil
}

func (n *node) isDown() bool {
	if !n.enabled {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.down
}

// refuse ends calls with err that have not been sent.
func (n *node) refuse(calls []*call, err error) {
	n.mu.Lock()
	for _, c := range calls {
		c.err = err
		n.keepLocked(c)
	}
	n.mu.Unlock()
	for _, c := range calls {
		c.report()
	}
}

// keepLocked keeps a release for when the node answers, if there may be something to release.
func (n *node) keepLocked(c *call) {
	if !n.enabled || c.undoes == nil || !c.undoes.sent.Load() || len(n.unsent) == maxUnsent {
		return
	}
	n.unsent = append(n.unsent, &call{request: c.request, singleKey: c.singleKey, about: c.about})
}

// abandon notes that c has no caller any more.
func (n *node) abandon(c *call) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !c.ended && !c.abandoned {
		c.abandoned = true
		n.abandoned++
	}
}

// observe counts the outcome of a round trip.
func (n *node) observe(answered bool) {
	if !n.enabled {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if answered {
		n.failures = 0
		if len(n.unsent) > 0 && !n.down {
			n.enqueueLocked(n.takeUnsentLocked())
		}
		return
	}
	if n.failures++; n.failures >= downAfter && !n.down && !n.stopped {
		n.down = true
		n.stop = make(chan struct{})
		n.probes = true
		go n.probe(n.stop)
	}
}

// probe pings a node that is down until it answers.
func (n *node) probe(stop <-chan struct{}) {
	defer n.endProbing()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(probeEvery/2 + rand.N(probeEvery))
		select {
		case <-stop:
			return
		case <-timer.C:
		}
		ping := &call{request: request{args: []any{"ping"}}}
		n.exchange([]*call{ping})
		if answered(ping.err) {
			n.recover()
			return
		}
	}
}

func (n *node) endProbing() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.probes = false
	n.quietLocked()
}

// recover marks the node as up. Releases that could not be sent go first, to free their locks; locks whose releases were not
// kept end with their leases. The server may be another one by now, so it is identified again.
func (n *node) recover() {
	n.identified.Store(false)
	n.mu.Lock()
	n.down, n.failures = false, 0
	unsent := n.takeUnsentLocked()
	n.mu.Unlock()
	n.submit(unsent...)
}

func (n *node) takeUnsentLocked() []*call {
	unsent := n.unsent
	n.unsent = nil
	return unsent
}

// stopProbing ends the prober for good; a node that is down stays down.
func (n *node) stopProbing() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopped {
		return
	}
	n.stopped = true
	if n.down {
		close(n.stop)
	}
}

// answered reports whether err, which may be nil, is the server's answer rather than a failure to reach it.
func answered(err error) bool {
	if err == nil {
		return true
	}
	_, ok := errors.AsType[redis.Error](err)
	return ok
}
