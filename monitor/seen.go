package monitor

import "sync"

// maxSeen is how many names are remembered.
const maxSeen = 10_000

// seenNames has names found in queries, for later snapshots: a lock outlives the statement that names it. Each name is
// certain, since its hash is the key.
type seenNames struct {
	mu    sync.Mutex
	names map[identity]string
}

// note adds a name. If there are too many, it removes another one.
func (s *seenNames) note(id identity, name string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.names[id]; known {
		return
	}
	for other := range s.names {
		if len(s.names) < maxSeen {
			break
		}
		delete(s.names, other)
	}
	s.names[id] = name
}

func (s *seenNames) name(id identity) (name string, ok bool) {
	if s == nil {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name, ok = s.names[id]
	return name, ok
}
