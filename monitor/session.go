package monitor

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/internal/appname"
	"github.com/pglock-toolkit/pglock/internal/monitordb"
	"github.com/pglock-toolkit/pglock/internal/shorttext"
)

// Fields of a Session that can be hidden, by their names in JSON.
var (
	// detailFields are visible to members of pg_read_all_stats, and to members of the session's role.
	detailFields = []string{"client", "backend_type", "leader_pid", "state", "state_since", "query", "session_since", "transaction_since",
		"xmin_age", "xid_age", "wait_event_type", "wait_event"}
	// sessionFields are unknown of a session that pg_stat_activity does not list.
	sessionFields = append([]string{"user", "application"}, detailFields...)
	// preparedFields are unknown of a prepared transaction that pg_prepared_xacts does not list.
	preparedFields = []string{"gid", "prepared_at", "user", "xid_age"}
)

// sessions returns the sessions and prepared transactions in t, by their owner in its rows.
func sessions(t tables) map[string]Session {
	found := map[string]Session{}
	for _, row := range t.rows {
		if _, known := found[row.Owner]; row.Owner != "" && (!known || row.SessionPid.Valid) {
			found[row.Owner] = session(row, t.server)
		}
	}
	return found
}

// session returns the session or prepared transaction of a row. Its Hidden names what is unknown.
func session(row monitordb.LocksRow, server monitordb.LimitRow) Session {
	switch {
	case !row.Pid.Valid:
		return preparedTransaction(row, server)
	case !row.SessionPid.Valid:
		return Session{PID: row.Pid.Int32, Database: row.Datname.String, Hidden: slices.Clone(sessionFields)}
	}
	return visibleSession(row)
}

// visibleSession returns what pg_stat_activity shows, which is little for roles without the right.
func visibleSession(row monitordb.LocksRow) Session {
	_, process := appname.Split(row.ApplicationName.String)
	session := Session{
		PID:         row.SessionPid.Int32,
		User:        row.Usename.String,
		Database:    row.Datname.String,
		Application: row.ApplicationName.String,
		Process:     process,
		Hidden:      []string{},
	}
	session.SignalledBy = signalledBy(session.User, row.Refusal)
	if detailsHidden(row) {
		session.Hidden, session.SignalledBy = slices.Clone(detailFields), cmp.Or(session.SignalledBy, byReader)
		return session
	}
	session.Client = client(row.ClientAddr, row.ClientPort)
	session.State, session.StateSince = row.State.String, instant(row.StateChange)
	session.BackendType, session.LeaderPID = row.BackendType.String, leaderOf(row)
	session.Query = row.Query.String
	session.Since, session.TransactionSince = instant(row.BackendStart), instant(row.XactStart)
	if session.Application == "" && session.User == "" {
		session.Application = "(" + session.BackendType + ")"
	}
	session.XminAge, session.XIDAge = number(row.XminAge), number(row.XidAge)
	session.WaitEventType, session.WaitEvent = row.WaitEventType.String, row.WaitEvent.String
	return session
}

// Who may signal a session of a superuser, or one of which the role may not see when it began.
const (
	bySuperuser = "a superuser"
	byReader    = "a member of pg_read_all_stats"
)

// signalledBy says who may signal a session of a user, if the role may not, from why it may not.
func signalledBy(user string, refusal int32) string {
	switch refusal {
	case 1:
		return fmt.Sprintf("a member of %s or pg_signal_backend", user)
	case 2:
		return bySuperuser
	}
	return ""
}

// origin is where a Locker's session comes from. Any role can give its sessions the mark of another role's process, which
// would then seem to wait for itself. So the mark counts only together with the user and host, which a session cannot
// choose.
type origin struct{ mark, user, host string }

// origin returns the zero origin for a session without a mark. The host is unknown if the client is hidden, which is the
// case for all sessions of a role or for none.
func (s Session) origin() origin {
	if s.Process == "" {
		return origin{}
	}
	host, _, err := net.SplitHostPort(s.Client)
	if err != nil {
		host = s.Client
	}
	return origin{s.Process, s.User, host}
}

// sameProcess reports whether s and other, two sessions or one, belong to Lockers of one process: they have the same mark
// ([Session.Process]), the same role and, where the server shows it, the same client address. Sessions of other roles are
// not believed, since any role can copy a mark. Two sessions without a mark do not belong together.
func (s Session) sameProcess(other Session) bool {
	return s.Process != "" && s.origin() == other.origin()
}

// detailsHidden reports whether the role may not see a session's details. Every session has a start, so a missing start
// means that it is hidden. The query is then "<insufficient privilege>", but a session can run a query with that text.
func detailsHidden(row monitordb.LocksRow) bool {
	return row.SessionPid.Valid && !row.BackendStart.Valid
}

// detailsHiddenText says what to do about hidden details. It is empty if there are none.
func detailsHiddenText(t tables) string {
	if !slices.ContainsFunc(t.rows, detailsHidden) {
		return ""
	}
	return fmt.Sprintf("role %[1]s may not see the details of other roles' sessions: "+
		"GRANT pg_read_all_stats TO %[1]s", quote(t.server.Role))
}

// cleanTexts replaces what is not UTF-8 in the texts of a row. They come from others, and in any encoding.
func cleanTexts(row *monitordb.LocksRow) {
	for _, text := range []*pgtype.Text{&row.Datname, &row.Gid, &row.Role, &row.Usename, &row.ApplicationName, &row.State, &row.Query,
		&row.WaitEventType, &row.WaitEvent, &row.BackendType} {
		text.String = shorttext.Clean(text.String)
	}
}

func preparedTransaction(row monitordb.LocksRow, server monitordb.LimitRow) Session {
	session := Session{
		GID:        row.Gid.String,
		PreparedAt: instant(row.Prepared),
		User:       row.Role.String,
		Database:   row.Datname.String,
		XIDAge:     number(row.XidAge),
		Hidden:     []string{},
	}
	if row.Gid.Valid && !server.Superuser && session.User != server.Role {
		session.SignalledBy = fmt.Sprintf("%s or a superuser", session.User)
	}
	if !row.Gid.Valid {
		session.Hidden = slices.Clone(preparedFields)
	}
	return session
}

// client returns a client's address as PostgreSQL's log writes it, with "[local]" for a Unix socket.
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

func number(n pgtype.Int8) *int64 {
	if !n.Valid {
		return nil
	}
	return &n.Int64
}
