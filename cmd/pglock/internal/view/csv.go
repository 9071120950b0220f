package view

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// header names the columns of CSV. New ones are added only at the end.
var header = []string{"taken_at", "database", "key", "space", "number", "class", "object", "role", "mode",
	"pid", "gid", "user", "application", "client", "state", "state_since", "session_since", "transaction_since",
	"waiting_since", "blocked_by", "blocked_softly_by", "query", "hidden",
	"prepared_at", "waiting_estimated", "blocked_by_gids", "names", "guesses", "database_oid", "objsubid", "process",
	"identity", "xmin_age", "xid_age", "wait_event_type", "wait_event", "classid", "objid"}

// CSV writes snapshots as in RFC 4180: lines end in CR LF, and a field with a quote, a comma or a line break is
// quoted. The zero value writes every field as [Cell] has it.
type CSV struct {
	// Printable escapes control characters, for output on a terminal.
	Printable bool
	// Servers adds a column with the label of the server, for snapshots of several.
	Servers bool
}

// Header writes the names of the columns.
func (c CSV) Header(w io.Writer) error {
	if c.Servers {
		return c.write(w, [][]string{append(slices.Clone(header), "server")})
	}
	return c.write(w, [][]string{header})
}

// Snapshot writes a record for each holder and each waiter. Blockers are process IDs separated by spaces, where a
// prepared transaction is 0 and blocked_by_gids has its identifier in quotes; values that the server did not report
// are empty, and named in the column hidden.
func (c CSV) Snapshot(w io.Writer, s *monitor.Snapshot) error {
	var records [][]string
	for _, lock := range s.Locks {
		for _, holder := range lock.Holders {
			waiter := monitor.Waiter{Mode: holder.Mode, Session: holder.Session}
			records = append(records, record(s, lock, waiter, "holds"))
		}
		for _, waiter := range lock.Waiters {
			records = append(records, record(s, lock, waiter, "waits"))
		}
	}
	for i := range records {
		if c.Servers {
			records[i] = append(records[i], s.Server.Label)
		}
	}
	return c.write(w, records)
}

// record writes a waiter, or a holder as a waiter without blockers.
func record(s *monitor.Snapshot, lock monitor.Lock, w monitor.Waiter, role string) []string {
	return []string{
		timestamp(&s.TakenAt), lock.Database, lock.Key, string(lock.Space), strconv.FormatInt(lock.Number, 10),
		fmt.Sprint(lock.Class), fmt.Sprint(lock.Object), role, string(w.Mode),
		fmt.Sprint(w.PID), w.GID, w.User, w.Application, w.Client,
		w.State, timestamp(w.StateSince), timestamp(w.Since), timestamp(w.TransactionSince),
		timestamp(w.WaitingSince), pids(w.BlockedBy, monitor.BlockHard), pids(w.BlockedBy, monitor.BlockSoft),
		w.Query, strings.Join(w.Hidden, " "),
		timestamp(w.PreparedAt), strconv.FormatBool(w.WaitingEstimated), gids(w.BlockedBy),
		strings.Join(lock.Names, " | "), guesses(lock), fmt.Sprint(lock.DatabaseOID), fmt.Sprint(lock.Objsubid), w.Process,
		optional(w.Identity), optional(w.XminAge), optional(w.XIDAge), w.WaitEventType, w.WaitEvent,
		fmt.Sprint(lock.ClassID), fmt.Sprint(lock.ObjectID),
	}
}

func pids(blockers []monitor.Blocker, kind monitor.BlockKind) string {
	var found []string
	for _, blocker := range blockers {
		if blocker.Kind == kind {
			found = append(found, fmt.Sprint(blocker.PID))
		}
	}
	return strings.Join(found, " ")
}

func gids(blockers []monitor.Blocker) string {
	var found []string
	for _, blocker := range blockers {
		if blocker.PID == 0 {
			found = append(found, "'"+strings.ReplaceAll(blocker.GID, "'", "''")+"'")
		}
	}
	return strings.Join(found, " ")
}

func guesses(lock monitor.Lock) string {
	var all []string
	for _, guess := range lock.Guesses {
		all = append(all, guess.String())
	}
	return strings.Join(all, " | ")
}

func timestamp(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

func optional[T int32 | int64](n *T) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

// write writes the line ends of RFC 4180. encoding/csv would also change those inside fields.
func (c CSV) write(w io.Writer, records [][]string) error {
	out := bufio.NewWriter(w)
	for _, record := range records {
		fields := make([]string, len(record))
		for i, field := range record {
			field = Cell(field)
			if c.Printable {
				field = Printable(field)
			}
			fields[i] = quoted(field)
		}
		_, _ = out.WriteString(strings.Join(fields, ",") + "\r\n") // Flush reports a failure
	}
	return out.Flush()
}

func quoted(field string) string {
	if !strings.ContainsAny(field, "\",\r\n") {
		return field
	}
	return `"` + strings.ReplaceAll(field, `"`, `""`) + `"`
}

// Cell returns foreign text as a field of CSV that is UTF-8, with U+FFFD for other bytes as in JSON, and that no spreadsheet
// takes for a formula. Numbers and raw keys are unchanged. Text that begins like a formula (=, +, -, @ or a control
// character that spreadsheets drop), also after apostrophes, gets another apostrophe, so that who takes one away has the
// text.
func Cell(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if formula.MatchString(text) && !numeric.MatchString(text) {
		return "'" + text
	}
	return text
}

// Spreadsheets of some languages take the wide forms for the others.
var (
	formula = regexp.MustCompile(`^'*[=+\-@\t\r\n\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}]`)
	numeric = regexp.MustCompile(`^@?-?[0-9]+(/-?[0-9]+)?(#[0-9]+)?$`)
)
