package exporter

import (
	_ "embed" // for the rules
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// Rules are alerting rules for Prometheus, about the metrics that an Exporter serves.
//
//go:embed rules.yml
var Rules []byte

// heldFor returns an upper bound on how long a holder has held its lock, since PostgreSQL does not record when a lock was
// granted: the age of its transaction or, outside a transaction, of its session; for a prepared transaction, the time
// since it was prepared.
func heldFor(s *monitor.Snapshot, h monitor.Holder) time.Duration {
	since := []*time.Time{h.PreparedAt, h.TransactionSince, h.Session.Since}
	if h.Lease != nil { // a row says when
		since = []*time.Time{h.SeenSince}
	}
	for _, since := range since {
		if since != nil {
			return max(0, s.TakenAt.Sub(*since))
		}
	}
	return 0
}

// idleBlockers returns, by database, the longest time that a session which blocks others has been idle in transaction.
func idleBlockers(s *monitor.Snapshot) map[string]time.Duration {
	tree, idle := s.Tree(), map[string]time.Duration{}
	for session := range s.Sessions() {
		if n := tree.Node(session.ID()); n != nil && n.Behind > 0 && strings.HasPrefix(session.State, "idle in transaction") && session.StateSince != nil {
			database := valid(session.Database)
			idle[database] = max(idle[database], s.TakenAt.Sub(*session.StateSince))
		}
	}
	return idle
}
