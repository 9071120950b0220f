package monitor

import "fmt"

// party is a session of the snapshot. advisory reports whether it has advisory locks, and wanted whether the caller
// asked for it.
type party struct {
	Session
	advisory, wanted bool
}

// parties has the sessions and prepared transactions of the snapshot by their owner in the rows. A parallel worker is
// represented by its leader, as in pg_blocking_pids.
type parties struct {
	byOwner map[string]*party
	leaders map[string]string
}

func newParties(t tables, found map[string]Session) parties {
	p := parties{map[string]*party{}, map[string]string{}}
	for i := range t.rows {
		row := &t.rows[i]
		if row.Owner == "" {
			continue
		}
		one := p.byOwner[row.Owner]
		if one == nil {
			one = &party{Session: found[row.Owner]}
			p.byOwner[row.Owner] = one
		}
		one.advisory = one.advisory || row.Mode.Valid
		one.wanted = one.wanted || row.Wanted
		if row.LeaderPid.Valid && row.LeaderPid.Int32 != row.Pid.Int32 {
			p.leaders[row.Owner] = fmt.Sprint(row.LeaderPid.Int32)
		}
	}
	return p
}

// of returns the session of an owner, or nil if it is unknown.
func (p parties) of(owner string) *party {
	if leader := p.byOwner[p.leaders[owner]]; leader != nil {
		return leader
	}
	return p.byOwner[owner]
}

// knows reports whether the snapshot has a session with this process ID.
func (p parties) knows(pid int32) bool { return p.byOwner[fmt.Sprint(pid)] != nil }
