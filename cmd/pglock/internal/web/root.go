package web

import (
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/internal/lockmode"
	"github.com/pglock-toolkit/pglock/monitor"
)

// root is the session or process at the root of the waits.
type root struct {
	party
	ID       string     `json:"id"`
	Database string     `json:"database"`
	Client   string     `json:"client"`
	State    string     `json:"state"`
	Since    *time.Time `json:"since"` // since when it is in this state, or a process holds the lock
	// Lock is what it holds and most others wait for.
	Lock      *lockName `json:"lock"`
	Mode      string    `json:"mode"`
	Statement string    `json:"statement"`
	Frees     int       `json:"frees"`
	More      int       `json:"more"`     // further roots
	Deadlock  string    `json:"deadlock"` // that it is part of
	Command   string    `json:"command"`  // ends it
}

// setHeadline fills in what matters most.
func (st *head) setHeadline(s *monitor.Snapshot, tree blocking, flags string) {
	h := tree.headline(s)
	st.Waiting, st.Expected, st.Held = h.Waiting, h.Expected, h.Held
	st.Longest = tree.longest()
	st.Headline = h.String()
	if len(h.Whom) == 0 {
		return
	}
	st.Root = rootOf(h, flags)
	for i := range s.Cycles {
		if h.Cycle == &s.Cycles[i] {
			st.Root.Deadlock = st.Deadlocks[i]
		}
	}
}

func rootOf(h monitor.Action, flags string) *root {
	first := h.Whom[0]
	r := &root{party: nodeParty(first), ID: idOf(first.ID()), Database: first.Database, Client: first.Client, State: first.State,
		Since: h.Since, Mode: lockmode.Short(h.Mode), Statement: cut(h.Statement(), maxQuery), Frees: h.Frees,
		Command: view.EndCommand(h, flags)}
	if h.Lock != "" {
		r.Lock = &lockName{keyOfLabel(first, h.Lock), h.Lock}
	}
	return r
}
