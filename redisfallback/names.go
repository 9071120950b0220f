package redisfallback

import (
	"fmt"
	"strings"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// names are the Redis keys of one lock, which are all in one slot.
type names struct {
	lock string // contains the exclusive holder's token, or SHARED of common.lua, which excludes clients of other libraries
	tag  string // the prefix of the other keys
}

// namesOf returns the names of key's lock. The text of a key begins with @ when it is a raw key, and with @@ when its
// name begins with @, so that no two locks share a Redis key.
func namesOf(prefix string, key driver.Key) names {
	return newNames(prefix + key.String())
}

func newNames(lock string) names { return names{lock: lock, tag: tags()[slotOf(lock)]} }

// check refuses keys whose text, with the prefix, is one of this package's own keys.
func (n *names) check() error {
	tag, rest, ok := strings.Cut(n.lock, "}:pglock:")
	if !ok || !strings.HasPrefix(tag, "{") || strings.Contains(tag[1:], "{") {
		return nil
	}
	return fmt.Errorf("%w: Redis keys that begin with %s}:pglock: are this package's own (the rest of the name begins with %.20q)",
		driver.ErrInvalidKey, tag[:min(len(tag), len("{")+maxTag)], rest)
}

// maxTag is more than the length of any tag.
const maxTag = 8

// shared is the key of the set of shared holders.
func (n *names) shared() string { return n.tag + "shared:" + n.lock }

// writers and readers are the keys of the lines of waiters.
func (n *names) writers() string { return n.tag + "writers:" + n.lock }

func (n *names) readers() string { return n.tag + "readers:" + n.lock }

// fence is the key of the slot's counter. A counter for each name would never expire.
func (n *names) fence() string { return n.tag + "fence" }

// keys returns the first count of the lock's keys, in the order in which the scripts expect them.
func (n *names) keys(count int) []string {
	if count == 1 {
		return []string{n.lock}
	}
	return []string{n.lock, n.shared(), n.writers(), n.readers()}[:count]
}
