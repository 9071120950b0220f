package redisfallback

import "github.com/pglock-toolkit/pglock/pglock/driver"

// names are the Redis keys of one lock, which are all in one slot.
type names struct {
	lock    string // the exclusive holder's token, or sharedValue
	shared  string // the shared holders
	writers string // who waits
	readers string
	tag     string
}

// sharedValue is what the lock's key holds while the lock is shared. It keeps clients out that know nothing of shared
// locks.
const sharedValue = "pglock:shared"

// namesOf returns the names of key's lock. The text of a key begins with @ when it is a raw key, and with @@ when its
// name begins with @, so that no two locks share a Redis key.
func namesOf(prefix string, key driver.Key) *names {
	lock := prefix + key.String()
	tag := "{" + tags()[slotOf(lock)] + "}:pglock:"
	return &names{
		lock: lock, tag: tag,
		shared: tag + "shared:" + lock, writers: tag + "writers:" + lock, readers: tag + "readers:" + lock,
	}
}

// fence is the counter of the lock's slot. There is none for each name: it would stay for ever.
func (n *names) fence() string { return n.tag + "fence" }

// keys returns the first count of the lock's keys, in the order in which the scripts expect them.
func (n *names) keys(count int) []string {
	return []string{n.lock, n.shared, n.writers, n.readers}[:count]
}
