package monitor

import "sync"

// mostSeen is how many names are remembered.
const mostSeen = 10_000

// seenNames are names found in queries, which snapshots share: a lock outlives the statement that names it. Each is
// certain, since its hash is the key.
type seenNames struct {
	mu    sync.Mutex
	names map[identity]string
}

// note remembers a name. If there are too many, another one is forgotten.
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
		if len(s.names) < mostSeen {
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
