package redisfallback

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// server is what INFO says about a node's server.
type server struct {
	runID   string // of the process, new at each start
	dataset string // the replication ID, which a primary and its replicas share
	primary string // the address of its primary if it is a replica, else empty
}

// census records the servers behind the nodes, so that no server votes twice.
type census struct {
	mu      sync.Mutex
	servers map[*node]server
	warned  map[*node]bool
	taken   atomic.Bool // all nodes have been asked once
}

// identify reads INFO from a node's server before its first call. A server that does not permit INFO is accepted
// unchecked.
func (b *backend) identify(n *node) error {
	c := &call{request: request{args: []any{"info"}}}
	if n.cluster { // it has many servers; ask one of them, without waiting
		c.then = func(c *call) {
			if info, ok := c.value.(string); ok {
				b.warn(n, info)
			}
		}
		n.submit(c)
		return nil
	}
	n.exchange([]*call{c})
	if redis.HasErrorPrefix(c.err, "NOPERM") || redis.HasErrorPrefix(c.err, "ERR unknown command") {
		b.env.Logger.Debug("Redis does not permit INFO, so the server was not checked", "node", n.name)
		return nil
	}
	if c.err != nil {
		return c.err
	}
	info, ok := c.value.(string)
	if !ok {
		return fmt.Errorf("INFO returned a %T", c.value)
	}
	s := server{runID: field(info, "run_id"), dataset: field(info, "master_replid")}
	if field(info, "role") == "slave" {
		s.primary = net.JoinHostPort(field(info, "master_host"), field(info, "master_port"))
	}
	b.census.record(n, s)
	if s.primary != "" {
		return fmt.Errorf("%w: it is a replica of %s; locks must be taken on the primary", driver.ErrStandby, s.primary)
	}
	b.warn(n, info)
	return nil
}

func (c *census) record(n *node, s server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.servers == nil {
		c.servers = map[*node]server{}
	}
	c.servers[n] = s
}

// conflict returns an error if two nodes are the same server or share a data set: their votes are not independent.
func (c *census) conflict(nodes []*node) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, n := range nodes {
		for j, other := range nodes[:i] {
			a, b := c.servers[n], c.servers[other]
			switch {
			case a.runID != "" && a.runID == b.runID:
				return fmt.Errorf("%w: client %d (%s) and client %d (%s) lead to the same server (run_id %s), which must not vote twice",
					driver.ErrUnsupported, j, other.name, i, n.name, a.runID)
			case a.dataset != "" && a.dataset == b.dataset:
				return fmt.Errorf("%w: client %d (%s) and client %d (%s) lead to a primary and its replica, or to two replicas of one: "+
					"Redlock needs independent servers", driver.ErrUnsupported, j, other.name, i, n.name)
			}
		}
	}
	return nil
}

// checkServers checks, before the first lock, that the reachable nodes of a Redlock are independent servers. The others
// are checked when they first answer.
func (b *backend) checkServers(ctx context.Context) error {
	if !b.redlock() {
		return nil
	}
	if !b.census.taken.Load() {
		if err := b.reachAll(ctx); err != nil {
			return err
		}
		b.census.taken.Store(true)
	}
	return b.census.conflict(b.nodes)
}

// reachAll waits a short time for all nodes to answer, and fails if no majority does.
func (b *backend) reachAll(ctx context.Context) error {
	for _, n := range b.nodes {
		n.identified.Store(false)
	}
	calls := b.calls(nil, nil, "ping")
	within, cancel := context.WithTimeout(ctx, min(b.timeout, reachWithin))
	defer cancel()
	t, err := b.roundUntil(within, calls, (*tally).over)
	if conflict := b.census.conflict(b.nodes); conflict != nil {
		return conflict
	}
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		t.expire()
	}
	return t.result(driver.ErrUnavailable)
}

// reachWithin is how long the first lock of a Redlock waits for nodes that do not answer.
const reachWithin = time.Second

// warn logs, once for each node, settings that can make its server lose locks.
func (b *backend) warn(n *node, info string) {
	b.census.mu.Lock()
	defer b.census.mu.Unlock()
	if b.census.warned[n] {
		return
	}
	if b.census.warned == nil {
		b.census.warned = map[*node]bool{}
	}
	b.census.warned[n] = true
	if mayEvict(info) {
		b.env.Logger.Warn("Redis may evict locks to make room: set maxmemory-policy to noeviction",
			"node", n.name, "policy", field(info, "maxmemory_policy"))
	}
	if mayDiverge(info) {
		b.env.Logger.Warn("a Redis primary that is cut off from its replicas keeps granting locks: "+
			"set min-replicas-to-write to 1 or more, and min-replicas-max-lag to less than the lease",
			"node", n.name, "replicas", field(info, "connected_slaves"), "lease", b.env.Lease)
	}
}

func mayEvict(info string) bool {
	return field(info, "maxmemory") != "0" && field(info, "maxmemory_policy") != "noeviction"
}

// mayDiverge reports whether the server has replicas and accepts writes when it cannot reach them. INFO has the number
// of good replicas only if min-replicas-to-write is not 0.
func mayDiverge(info string) bool {
	replicas := field(info, "connected_slaves")
	return replicas != "" && replicas != "0" && field(info, "min_slaves_good_slaves") == ""
}

// field returns the value of one line of INFO.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
