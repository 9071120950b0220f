package pglock

import (
	"slices"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// identity identifies a lock: the number of its key and, if the backend distinguishes locks by their names
// ([driver.NamedLocks]), the name.
type identity struct {
	KeyID
	name string
}

func (l *Locker) identityOf(key driver.Key) identity {
	if l.byName {
		return identity{key.KeyID, key.Name}
	}
	return identity{KeyID: key.KeyID}
}

// inOrder returns the keys of the locks, each once, in the order in which every process takes them.
func (l *Locker) inOrder(keys []Key) []Key {
	if !l.byName {
		return inOrder(keys)
	}
	keys = slices.Clone(keys)
	slices.SortFunc(keys, func(a, b Key) int { return a.k.Compare(b.k) })
	return slices.CompactFunc(keys, func(a, b Key) bool { return a.k.Compare(b.k) == 0 })
}
