package redisfallback

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/options"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// defaultKeyPrefix is the default of [WithKeyPrefix].
const defaultKeyPrefix = "pglock:"

// New returns a Locker whose locks are on the Redis of client: one server, the primary that Sentinel names, or a
// Cluster. The caller keeps the client: it must outlive the Locker, which does not close it. New does not connect; see
// [pglock.Locker.Ping]. Options that only PostgreSQL has are errors that match [pglock.ErrUnsupported].
func New(client redis.UniversalClient, opts ...pglock.Option) (*pglock.Locker, error) {
	return newLocker([]redis.UniversalClient{client}, opts)
}

// NewRedlock returns a Locker whose locks are on a majority of independent Redis servers, at least three of them: none
// may replicate another, or be a Cluster. A lock survives the loss of any minority of them. [pglock.Lock.Fence] is
// [pglock.ErrUnsupported]; otherwise the Locker is like that of [New].
func NewRedlock(clients []redis.UniversalClient, opts ...pglock.Option) (*pglock.Locker, error) {
	if len(clients) < minRedlock {
		return nil, fmt.Errorf("redisfallback: NewRedlock: %d clients: a majority needs at least %d independent servers",
			len(clients), minRedlock)
	}
	return newLocker(clients, opts)
}

func newLocker(clients []redis.UniversalClient, opts []pglock.Option) (*pglock.Locker, error) {
	b, err := NewBackend(clients)
	if err != nil {
		return nil, err
	}
	return pglock.NewWithBackend(b, opts...)
}

// NewBackend returns the backend of [New], for one client, or of [NewRedlock], for three or more, to be used with
// [pglock.NewWithBackend] once. It takes the options that New and NewRedlock leave at their defaults.
func NewBackend(clients []redis.UniversalClient, opts ...Option) (driver.Backend, error) {
	if err := checkClients(clients); err != nil {
		return nil, err
	}
	c := config{prefix: defaultKeyPrefix}
	if err := options.Apply(&c, opts); err != nil {
		return nil, fmt.Errorf("redisfallback: %w", err)
	}
	return newBackend(clients, c), nil
}

const minRedlock = 3

func checkClients(clients []redis.UniversalClient) error {
	switch {
	case len(clients) == 0:
		return errors.New("redisfallback: there is no client")
	case len(clients) != 1 && len(clients) < minRedlock:
		return fmt.Errorf("redisfallback: two servers cannot form a majority: give one, or at least %d independent ones", minRedlock)
	}
	seen := map[string]bool{}
	for i, client := range clients {
		switch c := client.(type) {
		case *redis.Client:
			if c == nil {
				return fmt.Errorf("redisfallback: client %d is nil", i)
			}
			if addr := c.Options().Addr; seen[addr] && addr != sentinelAddr {
				return fmt.Errorf("redisfallback: two clients use the same server %s, which must not vote twice", addr)
			} else {
				seen[addr] = true
			}
		case *redis.ClusterClient:
			if c == nil {
				return fmt.Errorf("redisfallback: client %d is nil", i)
			}
			if len(clients) > 1 {
				return fmt.Errorf("redisfallback: %w: client %d (%s) is one of a Cluster, and the nodes of a Redlock are "+
					"independent servers", pglock.ErrUnsupported, i, nodeName(c))
			}
		case *redis.Ring:
			return fmt.Errorf("redisfallback: %w: a Ring moves keys to other servers when one fails, "+
				"and their locks would be granted twice", pglock.ErrUnsupported)
		case nil:
			return fmt.Errorf("redisfallback: client %d is nil", i)
		}
	}
	return nil
}

// sentinelAddr is what go-redis puts in place of the address of a client that asks Sentinel for it.
const sentinelAddr = "FailoverClient"
