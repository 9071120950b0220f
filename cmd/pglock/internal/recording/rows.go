package recording

import (
	"cmp"
	"slices"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// rowLockLine is a lock in a row, with its oldest holders and waiters.
type rowLockLine struct {
	Kind string          `json:"kind"`
	Lock monitor.RowLock `json:"lock"` // it has a kind too
}

// What is recorded of a lock in a row, so that no line has more than maxElements.
const (
	maxRowParties  = 256 // holders, and as many waiters
	maxRowBlockers = 4   // of a waiter
)

// rowPartyCost is what a holder or waiter of a lock in a row, or the lock itself, costs in memory, and rowByteCost what each byte of
// its line does, as in limits.go.
const (
	rowPartyCost = 1200
	rowByteCost  = 12
)

// recordedRow returns a lock in a row as it is recorded.
func recordedRow(l monitor.RowLock) monitor.RowLock {
	l.Holders = slices.Clone(l.Holders[:min(len(l.Holders), maxRowParties)])
	l.Waiters = slices.Clone(l.Waiters[:min(len(l.Waiters), maxRowParties)])
	readable(&l.Key, &l.Name)
	for i := range l.Holders {
		readableProcess(&l.Holders[i].RowProcess)
	}
	for i := range l.Waiters {
		w := &l.Waiters[i]
		readableProcess(&w.RowProcess)
		w.BlockedBy = w.BlockedBy[:min(len(w.BlockedBy), maxRowBlockers)]
	}
	return l
}

func readableProcess(p *monitor.RowProcess) {
	readable(&p.Holder, &p.User, &p.Application, &p.Host)
}

// rowElements is the work that a lock in a row makes.
func rowElements(l *monitor.RowLock) int { return 1 + len(l.Holders) + waiterElements*len(l.Waiters) }

// addRow adds a lock in a row.
func (s *state) addRow(line []byte) error {
	read, err := read[rowLockLine](line)
	if err != nil {
		return err
	}
	l := &read.Lock
	s.serverCost += rowPartyCost*(1+len(l.Holders)+len(l.Waiters)) + rowByteCost*len(line)
	s.rowElements += rowElements(l)
	for i := range l.Holders {
		h := &l.Holders[i]
		err = cmp.Or(err, timeInRange(&h.HeldSince), timesInRange(&h.Since, &h.LeaseExpires))
	}
	for i := range l.Waiters {
		w := &l.Waiters[i]
		err = cmp.Or(err, timeInRange(&w.WaitingSince), timesInRange(&w.Since, &w.LeaseExpires))
	}
	s.server.RowLocks = append(s.server.RowLocks, *l)
	return err
}

func timeInRange(t *time.Time) error {
	p := t
	err := timesInRange(&p)
	*t = *p
	return err
}
