package doctor

import (
	"fmt"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

const oldSnapshots = "old-snapshots"

// rowSnapshots finds sessions whose old snapshots slow locks in rows down: the server cannot remove the row versions that
// each lock and unlock leaves.
func rowSnapshots(f facts, old time.Duration) []Finding {
	var all []Finding
	for _, s := range f.snapshots {
		age := time.Duration(s.AgeMs) * time.Millisecond
		if age < old || len(all) == maxListed {
			continue
		}
		all = append(all, Finding{
			Check: oldSnapshots, Level: Warning,
			What: fmt.Sprintf("process %d (user %s, application %q), which is %s, has had a snapshot for %v",
				s.Pid, s.Role, s.Application, s.State, age.Round(time.Second)),
			Why: "locks in rows are in use in this database. Until the snapshot ends, the server keeps every row version that a lock " +
				"or an unlock leaves, and finds locks ever more slowly",
			Do: fmt.Sprintf("have its transactions end sooner; now, wait for the end, or end the session: %s",
				view.EndSession("terminate", monitor.Session{PID: s.Pid, Since: &s.BackendStart.Time}.SessionRef(), f.server)),
		})
	}
	if all == nil {
		return []Finding{{Check: oldSnapshots, Level: OK, What: fmt.Sprintf("no snapshot in this database slows locks in rows down "+
			"(none is older than %v, or there are no such locks)", old)}}
	}
	return all
}
