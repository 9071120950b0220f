package monitor

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/internal/monitordb"
)

// Fields of a Session that the server may not tell, as JSON names them.
var (
	// detailFields are for members of pg_read_all_stats, and for sessions of a role that one is a member of.
	detailFields = []string{"client", "state", "state_since", "query", "session_since", "transaction_since",
		"wait_event_type", "wait_event"}
	// sessionFields are unknown of a session that pg_stat_activity does not list.
	sessionFields = append([]string{"user", "application"}, detailFields...)
	// preparedFields are unknown of a prepared transaction that pg_prepared_xacts does not list.
	preparedFields = []string{"gid", "prepared_at", "user"}
)

// sessions collects the sessions that t describes, by process ID: one row of each session does.
func sessions(t tables) map[int32]Session {
	found := map[int32]Session{}
	for _, row := range t.locks {
		if row.SessionPid.Valid {
			found[row.SessionPid.Int32] = visibleSession(row)
		}
	}
	return found
}

// visibleSession reads what pg_stat_activity shows, which for roles without the right is little.
func visibleSession(row monitordb.LocksRow) Session {
	session := Session{
		PID:         row.SessionPid.Int32,
		User:        row.Usename.String,
		Database:    row.DatabaseName.String,
		Application: row.ApplicationName.String,
		Hidden:      []string{},
	}
	if detailsHidden(row) {
		session.Hidden = slices.Clone(detailFields)
		return session
	}
	session.Client = client(row.ClientAddr, row.ClientPort)
	session.State, session.StateSince = row.State.String, instant(row.StateChange)
	session.Query = row.Query.String
	session.Since, session.TransactionSince = instant(row.BackendStart), instant(row.XactStart)
	session.WaitEventType, session.WaitEvent = row.WaitEventType.String, row.WaitEvent.String
	return session
}

// detailsHidden reports whether the role may not see a session's details. Every session has a start, so its absence
// says so; the query then reads "<insufficient privilege>", but any session's query can read so.
func detailsHidden(row monitordb.LocksRow) bool {
	return row.SessionPid.Valid && !row.BackendStart.Valid
}

// whyHidden says what to do about hidden details; empty when there are none.
func whyHidden(t tables) string {
	for _, row := range t.locks {
		if detailsHidden(row) {
			return fmt.Sprintf("role %[1]s may not see the details of other roles' sessions: "+
				"GRANT pg_read_all_stats TO %[1]s", quote(t.server.Role))
		}
	}
	return ""
}

// lockSession finds the session or prepared transaction of a row, or says what is unknown about it.
func lockSession(row monitordb.LocksRow, found map[int32]Session) Session {
	if !row.Pid.Valid {
		return preparedTransaction(row)
	}
	if session, ok := found[row.Pid.Int32]; ok {
		return session
	}
	return Session{PID: row.Pid.Int32, Database: row.DatabaseName.String, Hidden: slices.Clone(sessionFields)}
}

func preparedTransaction(row monitordb.LocksRow) Session {
	session := Session{
		GID:        row.Gid.String,
		PreparedAt: instant(row.Prepared),
		User:       row.Owner.String,
		Database:   row.DatabaseName.String,
		Hidden:     []string{},
	}
	if !row.Gid.Valid {
		session.Hidden = slices.Clone(preparedFields)
	}
	return session
}

// client writes a client's address as PostgreSQL's log does, where a Unix socket is "[local]".
func client(address *netip.Addr, port pgtype.Int4) string {
	if address == nil {
		return "[local]"
	}
	return net.JoinHostPort(address.String(), strconv.Itoa(int(port.Int32)))
}

func instant(t pgtype.Timestamptz) *time.Time {
	if !t.Valid {
		return nil
	}
	utc := t.Time.UTC()
	return &utc
}
