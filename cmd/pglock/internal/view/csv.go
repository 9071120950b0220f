package view

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/monitor"
)

// header names the columns of CSV, which are added to at the end only.
var header = []string{"taken_at", "database", "key", "space", "number", "class", "object", "role", "mode",
	"pid", "gid", "user", "application", "client", "state", "state_since", "session_since", "transaction_since",
	"waiting_since", "blocked_by", "blocked_softly_by", "query", "hidden"}

// CSVHeader writes the names of the columns.
func CSVHeader(w io.Writer) error { return writeCSV(w, [][]string{header}) }

// CSV writes a record for each holder and each waiter. Blockers are process IDs separated by spaces, where a prepared
// transaction is 0; what the server did not tell is empty, and named in the column hidden.
func CSV(w io.Writer, s *monitor.Snapshot) error {
	var records [][]string
	for _, lock := range s.Locks {
		for _, holder := range lock.Holders {
			records = append(records, record(s, lock, holder.Session, "holds", holder.Mode, nil, nil))
		}
		for _, waiter := range lock.Waiters {
			records = append(records,
				record(s, lock, waiter.Session, "waits", waiter.Mode, waiter.WaitingSince, waiter.BlockedBy))
		}
	}
	return writeCSV(w, records)
}

func record(s *monitor.Snapshot, lock monitor.Lock, session monitor.Session, role string, mode monitor.Mode,
	waiting *time.Time, blockers []monitor.Blocker) []string {
	return []string{
		timestamp(&s.TakenAt), lock.Database, lock.Key, string(lock.Space), strconv.FormatInt(lock.Number, 10),
		fmt.Sprint(lock.Class), fmt.Sprint(lock.Object), role, string(mode),
		fmt.Sprint(session.PID), session.GID, session.User, session.Application, session.Client,
		session.State, timestamp(session.StateSince), timestamp(session.Since), timestamp(session.TransactionSince),
		timestamp(waiting), pids(blockers, monitor.Hard), pids(blockers, monitor.Soft),
		session.Query, strings.Join(session.Hidden, " "),
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

func timestamp(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

func writeCSV(w io.Writer, records [][]string) error {
	return csv.NewWriter(w).WriteAll(records)
}
