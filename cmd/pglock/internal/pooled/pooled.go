// Package pooled names the clients behind the sessions of a PgBouncer, whose own address is all that the server knows.
package pooled

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/monitor"
)

// ErrNotConsole is matched by the error of what is not the admin console of a PgBouncer, but a server or a way to one.
var ErrNotConsole = errors.New("this is not the console of a PgBouncer (its database is named pgbouncer)")

// Pooler asks a PgBouncer which of its clients has which session. It must not be used from two goroutines at once.
type Pooler struct {
	config *pgconn.Config
	conn   *pgconn.PgConn // nil before the first connection and after an error
}

// New returns the Pooler of an admin console. The role must be one of admin_users or stats_users.
func New(config *pgconn.Config) *Pooler {
	config = config.Copy()
	if config.Database == "" {
		config.Database = "pgbouncer"
	}
	// The console knows no SET, and is no server.
	config.RuntimeParams, config.AfterConnect, config.ValidateConnect = map[string]string{}, nil, nil
	return &Pooler{config: config}
}

// Links are the clients that have a session now.
type Links map[Session]Client

// Session is a session of a server, as the pooler knows it. Servers have the same process IDs, so the port from which the
// pooler has connected belongs to it; it is empty for a Unix socket.
type Session struct {
	PID  string
	Port string
}

// sessionAt returns a session as the console describes it.
func sessionAt(pid, port, address string) Session {
	if address == "unix" {
		port = ""
	}
	return Session{pid, port}
}

// sessionOf returns a session as the server describes it.
func sessionOf(s monitor.Session) Session {
	_, port, err := net.SplitHostPort(s.Client)
	if err != nil {
		port = "" // a Unix socket
	}
	return Session{fmt.Sprint(s.PID), port}
}

// Client is a client of a pooler.
type Client struct {
	// Address has the client's address and port, or is [local].
	Address string
	id      string // of the connection, in the pooler
}

// Look asks for the clients. After an error it connects again.
func (p *Pooler) Look(ctx context.Context) (Links, error) {
	links, err := p.look(ctx)
	if err != nil {
		p.Close(ctx)
		return nil, fmt.Errorf("ask PgBouncer for its clients: %w", err)
	}
	return links, nil
}

func (p *Pooler) connect(ctx context.Context) (err error) {
	if p.conn == nil {
		p.conn, err = pgconn.ConnectConfig(ctx, p.config)
	}
	return err
}

func (p *Pooler) look(ctx context.Context) (Links, error) {
	if err := p.connect(ctx); err != nil {
		return nil, err
	}
	servers, err := p.show(ctx, "SHOW SERVERS", "remote_pid", "local_port", "local_addr", "link")
	if err != nil {
		return nil, err
	}
	clients, err := p.show(ctx, "SHOW CLIENTS", "ptr", "addr", "port")
	if err != nil {
		return nil, err
	}
	addresses := map[string]string{}
	for _, c := range clients {
		addresses[c[0]] = net.JoinHostPort(c[1], c[2])
		if c[1] == "unix" {
			addresses[c[0]] = "[local]"
		}
	}
	links := Links{}
	for _, s := range servers {
		if address, linked := addresses[s[3]]; linked {
			links[sessionAt(s[0], s[1], s[2])] = Client{address, s[3]}
		}
	}
	return links, nil
}

// show returns columns of what a command of the console shows. Versions have different columns.
func (p *Pooler) show(ctx context.Context, command string, columns ...string) (rows [][]string, err error) {
	results, err := p.conn.Exec(ctx, command).ReadAll()
	if sqlstate.In(err, sqlstate.UndefinedObject) { // to a server, SERVERS is a setting
		return nil, fmt.Errorf("%w: %w", ErrNotConsole, err)
	}
	if err != nil {
		return nil, err
	}
	if len(results) != 1 {
		return nil, errors.New(command + " shows nothing")
	}
	at := make([]int, len(columns))
	for i, column := range columns {
		at[i] = -1
		for k, field := range results[0].FieldDescriptions {
			if field.Name == column {
				at[i] = k
			}
		}
		if at[i] < 0 {
			return nil, fmt.Errorf("%s has no column %s", command, column)
		}
	}
	for _, values := range results[0].Rows {
		row := make([]string, len(columns))
		for i, k := range at {
			row[i] = string(values[k])
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// Close closes the connection.
func (p *Pooler) Close(ctx context.Context) {
	if p.conn != nil {
		_ = p.conn.Close(ctx) // nothing was changed
		p.conn = nil
	}
}

// Suffix is at the end of a client that Name has named.
const Suffix = " (through PgBouncer)"

// Name replaces the address of the pooler by that of its client, in all sessions of a snapshot. The links before and after
// the snapshot are compared: a session that had another client meanwhile keeps the address of the pooler.
func Name(s *monitor.Snapshot, before, after Links) {
	name := func(session *monitor.Session) {
		if session.PID == 0 {
			return
		}
		id := sessionOf(*session)
		if client, linked := after[id]; linked && before[id] == client {
			session.Client = client.Address + Suffix
		}
	}
	for i := range s.Locks {
		for k := range s.Locks[i].Holders {
			name(&s.Locks[i].Holders[k].Session)
		}
		for k := range s.Locks[i].Waiters {
			name(&s.Locks[i].Waiters[k].Session)
		}
	}
	for i := range s.OtherWaits {
		name(&s.OtherWaits[i].Session)
	}
	for i := range s.OtherSessions {
		name(&s.OtherSessions[i])
	}
}
