package monitor

import (
	"sync"
	"time"
)

// memory is what a Watcher keeps from one snapshot to the next. A nil memory keeps nothing.
type memory struct {
	mu sync.Mutex

	// seen has names found in queries: a lock outlives the statement that names it. Each name is certain, since its hash is the
	// key.
	seen map[identity]string

	// registered is what the registry of a database said since registeredAt. A snapshot asks for the keys that are not
	// in it. It is never changed, only replaced.
	database     uint32 // its OID
	registered   registered
	registeredAt time.Time
}

const (
	// maxSeen is how many names from queries are kept.
	maxSeen = 10_000
	// keepFor is how long names of a registry are used. A key can get a second name.
	keepFor = 15 * time.Second
)

func newMemory() *memory { return &memory{seen: map[identity]string{}} }

// note adds a name found in a query. If there are too many, it removes another one.
func (m *memory) note(id identity, name string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.seen[id]; known {
		return
	}
	for other := range m.seen {
		if len(m.seen) < maxSeen {
			break
		}
		delete(m.seen, other)
	}
	m.seen[id] = name
}

// name returns a name found in an earlier query.
func (m *memory) name(id identity) (name string, ok bool) {
	if m == nil {
		return "", false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	name, ok = m.seen[id]
	return name, ok
}

// namesOf returns the registered names that are known of a database, and since when. They must not be changed.
func (m *memory) namesOf(database uint32) (registered, time.Time) {
	now := time.Now()
	if m == nil {
		return registered{}, now
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.database != database || now.Sub(m.registeredAt) >= keepFor {
		return registered{}, now
	}
	return m.registered, m.registeredAt
}

// keepNames keeps the registered names of a snapshot. Of snapshots at the same time the last one counts; either has what its
// keys need.
func (m *memory) keepNames(database uint32, names registered, since time.Time) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.database, m.registered, m.registeredAt = database, names, since
}
