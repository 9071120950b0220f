package exporter

import (
	_ "embed" // for the rules
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// Thresholds say when the alerts fire.
type Thresholds struct {
	// Job is the name of the job by which Prometheus scrapes the exporter.
	Job string
	// Runbook is the address of a page about the alerts. Each alert's own part of it is #NAME. Without it there is no link.
	Runbook string
	// LongWait, OldHolder and IdleBlocker are how long a session has waited, a holder has had its lock, and a session that
	// blocks others has been idle in transaction. PreparedHolder is how long there have been prepared holders.
	LongWait, OldHolder, IdleBlocker, PreparedHolder time.Duration
	// LockTable is how full the lock table is, as a part of its nominal size.
	LockTable float64
}

// DefaultThresholds are those that pglock exporter --rules has without other flags.
func DefaultThresholds() Thresholds {
	return Thresholds{Job: "pglock", LongWait: time.Minute, OldHolder: time.Hour, IdleBlocker: 5 * time.Minute,
		PreparedHolder: 15 * time.Minute, LockTable: 0.75}
}

//go:embed rules.yml
var rulesText string

// rules has delimiters of its own, since those of Prometheus' templates are part of the rules.
var rules = template.Must(template.New("rules").Delims("[[", "]]").
	Funcs(template.FuncMap{"seconds": time.Duration.Seconds, "span": span}).Parse(rulesText))

// span writes a duration as Prometheus reads it, which knows neither fractions nor exponents.
func span(d time.Duration) string {
	if d%time.Second == 0 {
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return fmt.Sprintf("%dms", d.Milliseconds())
}

// mostLockTable is the largest use of a lock table that an alert can wait for. A table can be larger than its nominal size, but
// not by much, so a larger number was meant as a percentage.
const mostLockTable = 2

// WriteRules writes alerting rules for Prometheus, about the metrics that an Exporter serves.
func WriteRules(w io.Writer, at Thresholds) error {
	for what, text := range map[string]string{"job": at.Job, "runbook": at.Runbook} {
		if quoted := strconv.Quote(text); quoted != `"`+text+`"` {
			return fmt.Errorf("the %s %s has characters that would need quotes", what, quoted)
		}
	}
	if !(at.LockTable > 0 && at.LockTable <= mostLockTable) {
		return fmt.Errorf("the lock table cannot be %v times its nominal size: want a part of 1, such as 0.75", at.LockTable)
	}
	return rules.Execute(w, at)
}

// heldFor returns an upper bound on how long a holder has held its lock, since PostgreSQL does not record when a lock was
// granted: the age of its transaction or, outside a transaction, of its session; for a prepared transaction, the time
// since it was prepared.
func heldFor(s *monitor.Snapshot, session monitor.Session) time.Duration {
	for _, since := range []*time.Time{session.PreparedAt, session.TransactionSince, session.Since} {
		if since != nil {
			return max(0, s.TakenAt.Sub(*since))
		}
	}
	return 0
}

// idleBlockers returns, by database, the longest time that a session which blocks others has been idle in transaction.
func idleBlockers(s *monitor.Snapshot) map[string]time.Duration {
	behind, idle := s.Behind(), map[string]time.Duration{}
	for session := range s.Sessions() {
		if behind[session.ID()] > 0 && strings.HasPrefix(session.State, "idle in transaction") && session.StateSince != nil {
			database := valid(session.Database)
			idle[database] = max(idle[database], s.TakenAt.Sub(*session.StateSince))
		}
	}
	return idle
}
