package redisfallback

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// node is a server, a Cluster, or the primary that Sentinel names. The calls of concurrent callers share pipelines.
type node struct {
	client  redis.UniversalClient
	name    string
	cluster bool        // the client is a Cluster client
	follows bool        // the client finds the primary by itself
	single  atomic.Bool // one command must not use the keys of several locks

	timeout time.Duration // for a round trip

	identify   func() error // checks the server before the first call; may be nil
	identified atomic.Bool
	identity   sync.Mutex // held during identify

	mu      sync.Mutex
	waiting []*call          // ready to be sent
	last    map[string]*call // by lock: the last call that concerns it, if that has not ended
	flushes int              // under way
	direct  int              // calls that their callers send
	directs []*direct        // idle ones
	closed  bool             // directs are not kept
	quiet   chan struct{}    // closed when nothing is under way; nil if drain has not asked
	breaker
}

// newNode returns the node of a client. One of several nodes has a breaker.
func newNode(client redis.UniversalClient, oneOfSeveral bool) *node {
	n := &node{client: client, name: nodeName(client)}
	n.enabled = oneOfSeveral
	switch c := client.(type) {
	case *redis.Client:
		n.follows = c.Options().Addr == sentinelAddr
	case *redis.ClusterClient:
		n.cluster, n.follows = true, true
		n.single.Store(true)
	}
	return n
}

// submit queues calls and returns; each call reports its end.
func (n *node) submit(calls ...*call) {
	if len(calls) == 0 {
		return
	}
	n.mu.Lock()
	if err := n.refusalLocked(); err != nil {
		n.mu.Unlock()
		n.refuse(calls, err)
		return
	}
	n.enqueueLocked(calls)
	n.startLocked()
	n.mu.Unlock()
}

// sendDirectly sends c in the caller's own goroutine. It returns sent false if c must be submitted instead, because it has
// to wait for other calls or there is no direct connection. left reports whether ctx ended before the answer came.
func (n *node) sendDirectly(ctx context.Context, c *call) (sent, left bool) {
	client, ok := n.client.(*redis.Client)
	if !ok || n.enabled || n.identify != nil && !n.identified.Load() || ctx.Err() != nil {
		return false, false
	}
	n.mu.Lock()
	if !n.fewLocked() || !n.unblockedLocked(c) {
		n.mu.Unlock()
		return false, false
	}
	d := n.directLocked(client)
	n.direct++
	n.trackLocked(c)
	n.mu.Unlock()
	c.markSent()
	c.cmd = c.command()
	for range 1 + maxForms {
		if d.process(ctx, n.timeout, c.cmd) {
			go n.settle(d, c)
			return true, true
		}
		c.value, c.err = c.cmd.Result()
		if c.err == nil || !c.reform() {
			break
		}
	}
	n.endDirect(d, c)
	return true, false
}

// directLocked returns a direct connection that is idle, or a new one.
func (n *node) directLocked(client *redis.Client) *direct {
	if last := len(n.directs) - 1; last >= 0 {
		d := n.directs[last]
		n.directs = n.directs[:last]
		return d
	}
	return newDirect(client, n.timeout)
}

// settle ends a call whose caller has left.
func (n *node) settle(d *direct, c *call) {
	d.settle(n.timeout)
	c.err = errNoAnswer
	n.endDirect(d, c)
}

func (n *node) endDirect(d *direct, c *call) {
	n.mu.Lock()
	n.direct--
	n.untrackLocked(c)
	closed := n.closed
	if !closed {
		n.directs = append(n.directs, d)
	}
	n.startLocked() // calls waited for this one
	n.quietLocked()
	n.mu.Unlock()
	if closed {
		_ = d.client.Close() // nothing uses it any more
	}
}

// flushLoop sends the waiting calls until there are none left.
func (n *node) flushLoop() {
	for {
		runtime.Gosched() // let callers that are about to submit join the batch
		n.mu.Lock()
		batch := n.waiting
		n.waiting = nil
		if len(batch) == 0 {
			n.flushes--
			n.quietLocked()
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
		n.flush(batch)
	}
}

// flush sends a batch and ends its calls.
func (n *node) flush(batch []*call) {
	if err := n.ready(); err != nil {
		for _, c := range batch {
			c.err = err
		}
	} else {
		n.deliver(batch)
	}
	n.mu.Lock()
	for _, c := range batch {
		if !answered(c.err) {
			n.keepLocked(c)
		}
		n.untrackLocked(c)
	}
	n.mu.Unlock()
	for _, c := range batch {
		c.report()
	}
}

// ready returns an error if calls must not be sent. It identifies the server before the first one.
func (n *node) ready() error {
	if n.isDown() {
		return errDown
	}
	if n.identify == nil || n.identified.Load() {
		return nil
	}
	n.identity.Lock()
	defer n.identity.Unlock()
	if n.isDown() { // meanwhile
		return errDown
	}
	if n.identified.Load() {
		return nil
	}
	err := n.identify()
	n.identified.Store(err == nil)
	return err
}

// deliver sends a batch. Takes and releases go in bundles; those that a bundle could not execute follow on their own.
func (n *node) deliver(batch []*call) {
	if len(batch) == 1 && !batch[0].dropped.Load() {
		n.exchange(batch)
		return
	}
	wanted := make([]*call, 0, len(batch))
	for _, c := range batch {
		if c.dropped.Load() {
			c.err = errNoAnswer
			continue
		}
		wanted = append(wanted, c)
	}
	if n.single.Load() {
		n.exchange(wanted)
		return
	}
	singles, bundles := bundle(wanted)
	n.exchange(append(singles, bundles...))
	n.exchange(n.unbundle(bundles))
}

// exchange sends calls, and resends those that the server needs in another form.
func (n *node) exchange(calls []*call) {
	for _, c := range calls {
		c.markSent()
		c.cmd = c.command()
	}
	n.send(calls)
	for range maxForms {
		calls = reformed(calls)
		n.send(calls)
	}
}

// maxForms is how often a call can change its form: from a script's hash to its text, then to a script of one key, and
// again from its hash to its text.
const maxForms = 3

// reformed returns the calls that have changed their form.
func reformed(sent []*call) (calls []*call) {
	for _, c := range sent {
		if c.err != nil && c.reform() {
			calls = append(calls, c)
		}
	}
	return calls
}

// send makes one round trip. It does not depend on any caller's context: when a caller leaves, the call continues.
func (n *node) send(calls []*call) {
	if len(calls) == 0 {
		return
	}
	ctx := timeoutAfter(n.timeout)
	defer ctx.done()
	if len(calls) == 1 {
		_ = n.client.Process(ctx, calls[0].cmd) // the error is also the command's
	} else {
		commands := make([]*command, len(calls))
		for i, c := range calls {
			commands[i] = c.cmd
		}
		pipeline(ctx, n.client, commands)
	}
	heard := false
	for _, c := range calls {
		c.value, c.err = c.cmd.Result()
		heard = heard || answered(c.err)
	}
	n.observe(heard)
}

// drain waits until no call is in flight or ctx ends. The client's own timeouts end the rest. Calls may begin meanwhile.
func (n *node) drain(ctx context.Context) {
	n.stopProbing()
	n.mu.Lock()
	if n.quiet == nil {
		n.quiet = make(chan struct{})
	}
	quiet := n.quiet
	n.quietLocked()
	n.mu.Unlock()
	select {
	case <-quiet:
	case <-ctx.Done():
	}
}

// quietLocked notifies drain if nothing is under way.
func (n *node) quietLocked() {
	if n.quiet != nil && n.flushes+n.direct == 0 && !n.probes {
		close(n.quiet)
		n.quiet = nil
	}
}

// closeDirects closes the direct connections. One in use is closed when its call has ended.
func (n *node) closeDirects() (err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range n.directs {
		err = errors.Join(err, d.client.Close())
	}
	n.directs, n.closed = nil, true
	return err
}

// limit sets the client's read timeout, where the client allows that: a command that hangs blocks those behind it.
func (n *node) limit(d time.Duration) {
	n.timeout = d
	if client, ok := n.client.(*redis.Client); ok {
		if now := client.Options().ReadTimeout; now <= 0 || now > d {
			n.client = client.WithTimeout(d)
		}
	}
}

// nodeName describes where a client connects to, without the password.
func nodeName(client redis.UniversalClient) string {
	switch c := client.(type) {
	case *redis.Client:
		if c.Options().Addr == sentinelAddr {
			return "Redis (of Sentinel)"
		}
		return "Redis " + c.Options().Addr
	case *redis.ClusterClient:
		return "Redis Cluster " + strings.Join(c.Options().Addrs, ",")
	}
	return "Redis"
}
