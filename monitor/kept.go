package monitor

import (
	"sync"
	"time"
)

// keptNames has what the registry said of the keys of the last snapshot, so that the next one asks for the others only: those
// that have no name yet, or were not locked. A name is looked up again after keepFor, since a key can get a second one.
type keptNames struct {
	mu       sync.Mutex
	database uint32 // its OID
	names    registered
	since    time.Time
}

const keepFor = 15 * time.Second

// of returns the names of those keys that have some, and since when they are known.
func (k *keptNames) of(database uint32, keys []int64) (registered, time.Time) {
	names, now := registered{}, time.Now()
	if k == nil {
		return names, now
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.database != database || now.Sub(k.since) >= keepFor {
		return names, now
	}
	for _, key := range keys {
		if known := k.names[key]; known != nil {
			names[key] = known
		}
	}
	return names, k.since
}

// set keeps the names of a snapshot. Of snapshots at the same time the last one counts; either has what its keys need.
func (k *keptNames) set(database uint32, names registered, since time.Time) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.database, k.names, k.since = database, names, since
}

// without returns those keys that have no name.
func (r registered) without(keys []int64) []int64 {
	if len(r) == 0 {
		return keys
	}
	rest := []int64{}
	for _, key := range keys {
		if r[key] == nil {
			rest = append(rest, key)
		}
	}
	return rest
}
