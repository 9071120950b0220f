// Package doctor checks a server, as one role in one database, for problems with advisory locks. It first reads all
// facts; then each check reports findings about the facts. Checks do not query the server.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

// Level says how bad a finding is.
type Level string

// The levels, from best to worst.
const (
	OK      Level = "ok"      // as it should be
	Note    Level = "note"    // worth knowing; nothing breaks
	Warning Level = "warning" // something works worse than it could, or breaks in some uses
	Problem Level = "problem" // locks cannot be relied on, or are about to fail
)

// Levels are all levels, from best to worst.
var Levels = []Level{OK, Note, Warning, Problem}

// AtLeast reports whether l is at least as bad as other.
func (l Level) AtLeast(other Level) bool {
	return slices.Index(Levels, l) >= slices.Index(Levels, other)
}

// Checks are the names of all checks.
var Checks = []string{"server", "proxy", "standby", isolationSetting, idleSession,
	statementTimeout, lockTimeout, checkInterval, "tcp_keepalives", "temp", "connections", "lock-table", "schema", "trust",
	"log-lock-waits", "locker-grants", "watcher-grants", "pg_read_all_stats", "pg_signal_backend",
	"prepared-transactions", "waits", "row-leases", oldSnapshots}

// Finding is one result of a check. Its texts can contain names from the server.
type Finding struct {
	// Check names the check. The name is stable, and a check can have several findings.
	Check string `json:"check"`
	Level Level  `json:"level"`
	// What was found, Why it matters, and what to Do about it. The last two are empty if all is well.
	What string `json:"what"`
	Why  string `json:"why"`
	Do   string `json:"do"`
	// SQL are the statements that do it, if there are any. None of them turns off what protects the server, such as a
	// timeout. Optional says that all is well without them, as for every [Note].
	SQL      []string `json:"sql"`
	Optional bool     `json:"optional"`
}

// Report is the result of all checks. Its JSON field names are a stable format.
type Report struct {
	// Version is the version of the JSON form, [FormatVersion].
	Version       int       `json:"version"`
	TakenAt       time.Time `json:"taken_at"`
	ServerVersion string    `json:"server_version"`
	Database      string    `json:"database"`
	Role          string    `json:"role"`
	// Headline is what matters most among the present waits ([monitor.Snapshot.Action]), and End what ends the session or
	// process at their root. Both are as on all faces of the monitor.
	Headline string `json:"headline"`
	End      string `json:"end"`
	// Worst is the worst level of all findings.
	Worst Level `json:"worst"`
	// Findings are sorted, the worst first, and among equally bad ones the present incidents.
	Findings []Finding `json:"findings"`
}

// FormatVersion is the version of the JSON form of a [Report]. It changes if a field is removed or changes its
// meaning.
const FormatVersion = 1

// Examine examines the server that pool connects to, with the role and database of its configuration, which should be
// those that take locks. It takes one connection, changes nothing, and needs no grant.
func Examine(ctx context.Context, pool *pgxpool.Pool, o Options) (*Report, error) {
	f, err := readFacts(ctx, pool, o.Trusted)
	if err != nil {
		return nil, fmt.Errorf("examine the server: %w", err)
	}
	f.server = o.Server
	return report(f, o), nil
}

// Options say what is reported, and how.
type Options struct {
	// App says that what an application needs that takes locks is checked too.
	App bool
	// Trusted are additional roles that may own schema pglock. It is an error if one does not exist.
	Trusted []string
	// Ignore are the names of checks without findings in the report.
	Ignore []string
	// LongWait is how long a wait may last without a finding; zero stands for a minute.
	LongWait time.Duration
	// OldSnapshot is the age from which a snapshot is reported; zero stands for ten minutes.
	OldSnapshot time.Duration
	// Server are the flags that name the server, with a space before each, for commands that findings suggest.
	Server string
}

func report(f facts, o Options) *Report {
	r := &Report{Version: FormatVersion, Worst: OK, Findings: []Finding{}, TakenAt: time.Now().UTC(),
		ServerVersion: f.cockroach}
	if f.snapshot != nil {
		r.TakenAt, r.ServerVersion = f.snapshot.TakenAt, f.snapshot.ServerVersion
		r.Database, r.Role = f.snapshot.Database, f.snapshot.Role
		headline := f.snapshot.Action()
		r.Headline, r.End = headline.String(), view.EndCommand(headline, o.Server)
	}
	for _, finding := range findings(f, o) {
		if slices.Contains(o.Ignore, finding.Check) {
			continue
		}
		finding.Optional = finding.Level == Note
		if finding.SQL == nil {
			finding.SQL = []string{}
		}
		if finding.Level.AtLeast(r.Worst) {
			r.Worst = finding.Level
		}
		r.Findings = append(r.Findings, finding)
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return slices.Index(Levels, b.Level) - slices.Index(Levels, a.Level)
	})
	return r
}

func findings(f facts, o Options) []Finding {
	if f.cockroach != "" {
		return []Finding{cockroach(f)}
	}
	all := []Finding{waits(f, cmp.Or(o.LongWait, time.Minute)), lockTable(f)}
	all = append(all, prepared(f)...)
	all = append(all, rowLeases(f)...)
	all = append(all, rowSnapshots(f, cmp.Or(o.OldSnapshot, 10*time.Minute))...)
	if room := connections(f); o.App || room.Level == Warning { // a full server is an incident
		all = append(all, room)
	}
	all = append(all, probe(f), proxy(f), standby(f), schema(f))
	all = append(all, trusts(f)...)
	all = append(all, watcherRights(f)...)
	all = append(all, lockWaits(f))
	if o.App {
		all = append(all, isolation(f))
		all = append(all, timeouts(f)...)
		all = append(all, vanishedWaiters(f), keepalives(f), temporary(f))
		all = append(all, lockerRights(f)...)
	}
	return all
}

func quote(identifier string) string { return pgx.Identifier{identifier}.Sanitize() }
