package between

import "slices"

// Search looks for a cycle through start that does not end by itself, and returns its edges, from start on; nil if there is none.
// needs says what a node waits for: so many of several things, or with 0 all of them, each of which is kept from it by the
// nodes that its edges lead to. A node that waits for nothing can go on.
func Search[N comparable, E any](start N, needs func(N) (things [][]E, some int), to func(E) N) []E {
	s := search[N, E]{needs: needs, to: to, start: start, seen: map[N]bool{}}
	if !s.isStuck(start) {
		return nil
	}
	return s.cycle
}

type search[N comparable, E any] struct {
	needs       func(N) ([][]E, int)
	to          func(E) N
	start       N
	path, cycle []E        // from start; cycle came back to it
	seen        map[N]bool // true is on the path, false is not stuck
	steps       int
}

// maxSteps bounds a search. Only nested semaphores can need so many steps; then no cycle is found.
const maxSteps = 1 << 16

// isStuck reports whether n can go on only after the start has, or after itself.
func (s *search[N, E]) isStuck(n N) bool {
	if onPath, seen := s.seen[n]; seen {
		if n == s.start && len(s.path) > len(s.cycle) { // of a semaphore's several, the longest says most
			s.cycle = slices.Clone(s.path)
		}
		return onPath
	}
	if s.steps++; s.steps > maxSteps {
		return false
	}
	s.seen[n] = true
	things, some := s.needs(n)
	spare := 0
	if some > 0 {
		spare = len(things) - some
	}
	for _, keepers := range things {
		if slices.ContainsFunc(keepers, s.leadsNowhere) {
			if spare--; spare < 0 {
				delete(s.seen, n)
				return true
			}
		}
	}
	s.seen[n] = false
	return false
}

func (s *search[N, E]) leadsNowhere(edge E) bool {
	s.path = append(s.path, edge)
	defer func() { s.path = s.path[:len(s.path)-1] }()
	return s.isStuck(s.to(edge))
}
