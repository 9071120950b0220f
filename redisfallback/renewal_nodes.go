package redisfallback

import (
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// renewalNodes returns nodes that lead to the same servers as b's, with separate clients. Renewals use them, so an
// application that keeps all connections of its client busy, as with BLPOP, does not lose its locks. Renewals need not
// be ordered with other calls: a renewal that comes too late finds another token or none. A client of an unknown type
// is used for both.
func (b *backend) renewalNodes() []*node {
	nodes := make([]*node, len(b.nodes))
	for i, n := range b.nodes {
		client := n.client
		switch c := client.(type) {
		case *redis.Client:
			client = redis.NewClient(ownOptions(c))
		case *redis.ClusterClient:
			opts := *c.Options()
			opts.PoolSize, opts.MinIdleConns, opts.MaxIdleConns, opts.MaxActiveConns = ownPool, 0, 0, 0
			opts.MaintNotificationsConfig = noNotifications()
			client = redis.NewClusterClient(&opts)
		}
		node := newNode(client, b.redlock())
		node.name = n.name
		node.limit(b.timeout)
		node.submit(&call{request: request{args: []any{"ping"}}}) // connects before the first renewal is due
		nodes[i] = node
	}
	return nodes
}

// ownPool is more connections than one of our clients ever uses. A pool that fails to connect that many times in a row
// pauses for a second.
const ownPool = 20

// ownOptions returns the configuration of c for one of our clients.
func ownOptions(c *redis.Client) *redis.Options {
	opts := *c.Options()
	opts.PoolSize, opts.MinIdleConns, opts.MaxIdleConns, opts.MaxActiveConns = ownPool, 0, 0, 0
	opts.PushNotificationProcessor = nil // it belongs to the other client
	opts.MaintNotificationsConfig = noNotifications()
	return &opts
}

// noNotifications returns a new configuration: a client modifies its own when it connects.
func noNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
