package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// rowsUnknown says that what a check looks for is unknown, since locks in rows could not be read, or not all.
func (f facts) rowsUnknown(check, what string) Finding {
	finding := Finding{Check: check, Level: Note, What: what, Why: view.RowsMissing(f.snapshot),
		Do: "if locks in rows are in use, let this role read them: grant what a role needs that watches (pglock migrate print " +
			"lists it), and if the owner of schema pglock may run code with its rights, name the owner (--trust-owner)"}
	if slices.ContainsFunc(f.snapshot.Locks, func(l monitor.Lock) bool { return l.InRow }) {
		finding.Do = "read the others in the view pglock.row_locks"
	}
	return finding
}

// leaseLate is how little of a lease is left of a process that is late: it renews when two thirds are left, and a lease lasts
// for seconds.
const leaseLate = time.Second

// rowLeases reports processes whose lease is over, or nearly so.
func rowLeases(f facts) []Finding {
	const check = "row-leases"
	s := f.snapshot
	var late, over []monitor.Session
	seen := map[string]bool{}
	for _, lock := range s.Locks {
		for _, h := range lock.Holders {
			left, known := h.Lease.Left(s.TakenAt)
			if !known || seen[h.Lease.Holder] || left > leaseLate {
				continue
			}
			if seen[h.Lease.Holder] = true; left <= 0 {
				over = append(over, h.Session)
			} else {
				late = append(late, h.Session)
			}
		}
	}
	var all []Finding
	for _, p := range late {
		all = append(all, Finding{Check: check, Level: Warning,
			What: fmt.Sprintf("process %s holds locks in rows, and has not renewed its lease: %s", view.Process(p), view.Lease(p.Lease, s.TakenAt)),
			Why:  "it is cut off or too busy, or waits for a connection of its pool; its locks are lost with its lease",
			Do:   "see whether that process and its pool, or the pooler before the server, have a queue; or give it a longer lease (WithLease)",
		})
	}
	if len(over) > 0 {
		longest := slices.MinFunc(over, func(a, b monitor.Session) int { return a.Lease.Expires.Compare(*b.Lease.Expires) })
		all = append(all, Finding{Check: check, Level: Note,
			What: fmt.Sprintf("%s in rows past the end of their leases; first %s, %s", haveLocks(len(over)), view.Process(longest), view.Lease(longest.Lease, s.TakenAt)),
			Why:  "these processes ended without releasing their locks, or are cut off; the locks are free, and the next caller takes them",
			Do:   "if they should run, find out why they do not",
		})
	}
	if len(all) == 0 && view.RowsMissing(s) != "" {
		return []Finding{f.rowsUnknown(check, "it is unknown whether all processes that hold locks in rows renew their leases")}
	}
	if len(all) == 0 {
		return []Finding{{Check: check, Level: OK, What: "all processes that hold locks in rows renew their leases"}}
	}
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(a.What, b.What) })
	return atMost(all, "such processes")
}

func haveLocks(processes int) string {
	if processes == 1 {
		return "1 process has locks"
	}
	return fmt.Sprintf("%d processes have locks", processes)
}
