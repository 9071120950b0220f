package redisfallback

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/combine"
)

// node is a server, a Cluster, or the primary that Sentinel names. Calls that are made at the same time share pipelines.
//
// A node has a few lanes, each with one pipeline under way at a time. All calls about a lock take the same lane, so they
// reach the node in their order: a release does not overtake the attempt that it undoes, nor the next holder's attempt the
// release. With two lanes client and server work at the same time.
type node struct {
	client    redis.UniversalClient
	name      string
	follows   bool          // the client finds the primary by itself
	timeout   time.Duration // for a round trip
	maxQueued int           // calls in a lane; more fail at once

	introduce   func() error // checks the server before the first call; may be nil
	introduced  atomic.Bool
	introducing sync.Mutex

	lanes [lanes]combine.Queue[*call]
}

const lanes = 2

// maxQueued bounds the memory that one of several nodes costs while it does not answer: the others decide without it. A
// single node has no substitute, so its callers wait for it.
const maxQueued = 4096

var errBusy = fmt.Errorf("it has not answered for some time, and %d calls wait for it", maxQueued)

// newNode returns the node of a client.
func newNode(client redis.UniversalClient, oneOfSeveral bool) *node {
	n := &node{client: client, name: nodeName(client)}
	if oneOfSeveral {
		n.maxQueued = maxQueued
	}
	switch c := client.(type) {
	case *redis.Client:
		n.follows = c.Options().Addr == sentinelAddr
	case *redis.ClusterClient:
		n.follows = true
	}
	for i := range n.lanes {
		n.lanes[i].Send = n.send
	}
	return n
}

// submit queues calls and returns; each call reports its end.
func (n *node) submit(calls ...*call) {
	for _, c := range calls {
		lane := &n.lanes[c.lane%lanes]
		if n.maxQueued > 0 && lane.Len() >= n.maxQueued {
			c.end(errBusy)
			continue
		}
		lane.Add(c)
	}
}

// send sends a batch and ends its calls.
func (n *node) send(batch []*call) {
	err := n.ready()
	for len(batch) > 0 {
		calls, later := apart(batch)
		if err == nil {
			n.exchange(calls)
		}
		for _, c := range calls {
			c.end(err)
		}
		batch = later
	}
}

// apart returns the first call about each lock, and those that must follow them. In one pipeline a call that has to be sent
// again in another form would come after the next one about its lock.
func apart(batch []*call) (calls, later []*call) {
	if len(batch) == 1 {
		return batch, nil
	}
	seen := make(map[string]bool, len(batch))
	calls = make([]*call, 0, len(batch))
	for _, c := range batch {
		switch {
		case len(c.keys) > 0 && seen[c.keys[0]]:
			later = append(later, c)
		case len(c.keys) > 0:
			seen[c.keys[0]] = true
			fallthrough
		default:
			calls = append(calls, c)
		}
	}
	return calls, later
}

// ready returns an error if calls must not be sent. It checks the server before the first one.
func (n *node) ready() error {
	if n.introduce == nil || n.introduced.Load() {
		return nil
	}
	n.introducing.Lock()
	defer n.introducing.Unlock()
	if n.introduced.Load() { // meanwhile
		return nil
	}
	err := n.introduce()
	n.introduced.Store(err == nil)
	return err
}

// exchange sends calls, and resends those that the server needs in another form.
func (n *node) exchange(calls []*call) {
	for _, c := range calls {
		c.cmd = c.command()
	}
	for form := 0; len(calls) > 0 && form <= maxForms; form++ {
		n.roundTrip(calls)
		calls = reformed(calls)
	}
}

// maxForms is how often a call can change its form: from a script's hash to its text, then to a command on one key, which
// may be a script, and again from its hash to its text.
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

// roundTrip sends calls once. It does not depend on any caller's context: when a caller leaves, the call continues.
func (n *node) roundTrip(calls []*call) {
	ctx, cancel := context.WithTimeout(context.Background(), n.timeout) // it also bounds dialling
	defer cancel()
	if len(calls) == 1 {
		_ = n.client.Process(ctx, calls[0].cmd) // the error is also the command's
	} else {
		commands := make([]*command, len(calls))
		for i, c := range calls {
			commands[i] = c.cmd
		}
		pipeline(ctx, n.client, commands)
	}
	for _, c := range calls {
		c.value, c.err = c.cmd.Result()
		if errors.Is(c.err, context.DeadlineExceeded) { // not that of any caller
			c.err = errNoAnswer
		}
	}
}

// drain waits until no call is in flight or ctx ends. The client's own timeouts end the rest. Calls may begin meanwhile.
func (n *node) drain(ctx context.Context) {
	for i := range n.lanes {
		n.lanes[i].Wait(ctx)
	}
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
