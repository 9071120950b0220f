package redisfallback

import (
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// twins returns a node for each of b's, with a client of its own that has the same configuration. Renewals use them, so
// that an application that keeps all connections of its client busy, as with BLPOP, does not lose its locks. Renewals
// need not keep the order of other calls: a grant's renewal that comes too late finds another token, or none.
//
// A client of a type that is not known is shared.
func (b *Backend) twins() []*node {
	twins := make([]*node, len(b.nodes))
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
		twin := newNode(client, b.redlock())
		twin.name = n.name
		twin.limit(b.timeout)
		twin.submit(&call{request: request{args: []any{"ping"}}}) // connects before the first renewal is due
		twins[i] = twin
	}
	return twins
}

// ownPool is more connections than a client of ours ever uses. A pool that has failed to connect so many times in a row
// does not try again for a second.
const ownPool = 20

// ownOptions is the configuration of c, for a client of ours.
func ownOptions(c *redis.Client) *redis.Options {
	opts := *c.Options()
	opts.PoolSize, opts.MinIdleConns, opts.MaxIdleConns, opts.MaxActiveConns = ownPool, 0, 0, 0
	opts.PushNotificationProcessor = nil // that of the other client
	opts.MaintNotificationsConfig = noNotifications()
	return &opts
}

// noNotifications is a configuration that no other client has: a client changes its own when it connects.
func noNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
