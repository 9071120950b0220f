package view

import "github.com/pglock-toolkit/pglock/monitor"

// urgent is the locks of a snapshot, those of sessions and those in rows, each sorted by the longest wait.
type urgent struct {
	sessions []monitor.Lock
	rows     []monitor.RowLock
}

func urgentOf(s *monitor.Snapshot) urgent { return urgent{byUrgency(s), rowsByUrgency(s)} }

func (u urgent) len() int { return len(u.sessions) + len(u.rows) }

// first returns the n locks with the longest waits, of at least n.
func (u urgent) first(s *monitor.Snapshot, n int) urgent {
	i, j := 0, 0
	for range n {
		if j == len(u.rows) || i < len(u.sessions) && longest(s, u.sessions[i]) >= longestOfRow(s, u.rows[j]) {
			i++
		} else {
			j++
		}
	}
	return urgent{u.sessions[:i], u.rows[:j]}
}
