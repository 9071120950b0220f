package redisfallback

import (
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// introduce checks a node's server before the first call: that it is a primary, that no other node is the same server, and
// that the user has the rights to keep and release what he can take. It logs a warning for settings with which the server
// can lose locks.
func (b *backend) introduce(n *node) error {
	names := newNames(b.prefix) // of no lock, since no name is empty
	info := &call{request: request{args: []any{"info"}}}
	rights := &call{request: request{script: checkRights, keys: names.keys(checkRights.keys)}}
	n.exchange([]*call{info, rights})
	if redis.HasErrorPrefix(info.err, "NOPERM") || redis.HasErrorPrefix(info.err, "ERR unknown command") {
		b.env.Logger.Debug("Redis does not permit INFO, so the server was not checked", "node", n.name)
	} else if info.err != nil {
		return info.err
	}
	text, _ := info.value.(string)
	if field(text, "role") == "slave" {
		return fmt.Errorf("%w: it is a replica of %s; locks must be taken on the primary", driver.ErrStandby,
			net.JoinHostPort(field(text, "master_host"), field(text, "master_port")))
	}
	if rights.err != nil {
		return rights.err
	}
	if err := b.checkDistinct(n, field(text, "run_id")); err != nil {
		return err
	}
	b.warn(n, text)
	return nil
}

// checkDistinct returns an error if another node of a Redlock is the same server, which must not vote twice.
func (b *backend) checkDistinct(n *node, runID string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for other, id := range b.runIDs {
		if b.redlock() && other != n && id == runID && id != "" {
			return fmt.Errorf("%w: it is the same server as %s (run_id %s), which must not vote twice", driver.ErrUnsupported,
				other.name, runID)
		}
	}
	b.runIDs[n] = runID
	return nil
}

func (b *backend) warn(n *node, info string) {
	if policy := field(info, "maxmemory_policy"); field(info, "maxmemory") != "0" && policy != "noeviction" && policy != "" {
		b.env.Logger.Warn("Redis may evict locks to make room: set maxmemory-policy to noeviction", "node", n.name, "policy", policy)
	}
	// INFO has the number of good replicas only if min-replicas-to-write is not 0.
	if replicas := field(info, "connected_slaves"); replicas != "" && replicas != "0" && field(info, "min_slaves_good_slaves") == "" {
		b.env.Logger.Warn("a Redis primary that is cut off from its replicas keeps granting locks: "+
			"set min-replicas-to-write to 1 or more, and min-replicas-max-lag to less than the lease",
			"node", n.name, "replicas", replicas, "lease", b.env.Lease)
	}
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
