package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
)

// Conn is the connection of one lock session. One goroutine at a time may send, and one receive.
type Conn struct {
	// PID is the server process.
	PID uint32
	// GuardPID is the process ID that statements compare with that of their server process; 0 where a proxy is allowed.
	GuardPID int32
	// LockTable is the nominal size of the server's lock table.
	LockTable int
	// Server tells the server and the database apart from others.
	Server string
	// Database is the OID of the database, and Identity the second integer of the pair key that is the session's identity; 0 if
	// it has none.
	Database uint32
	Identity int32
	// Free says that the identity of the witness was free: the witness has ended, or the server does not keep locks.
	Free bool
	// Interruptible says that Interrupt works: some sockets that a DialFunc returns, as of SSH tunnels, have no deadlines.
	Interruptible bool

	socket net.Conn
	front  *pgproto3.Frontend
	cancel func(context.Context) error
	names  names

	bind    pgproto3.Bind // what is being sent
	args    [2][]byte     // of bind
	scratch []byte
}

// names are the names of a session's prepared statements, which no other session has.
type names struct{ try, unlock, plainBatch, batch, reconcile string }

// NewConn makes a lock session from a connection that has been set up.
func NewConn(socket net.Conn, front *pgproto3.Frontend, pid uint32, guardPID int32) *Conn {
	name := func(what string) string { return "pglock_" + what + "_" + strconv.Itoa(int(pid)) }
	return &Conn{
		PID: pid, GuardPID: guardPID, socket: socket, front: front, Interruptible: socket.SetReadDeadline(time.Time{}) == nil,
		names: names{name("try"), name("unlock"), name("plain_batch"), name("batch"), name("reconcile")},
	}
}

// prepare prepares the statements. In each of them GuardPID takes the place of the last parameter.
func (c *Conn) prepare() error {
	for _, st := range []struct {
		name, sql string
		params    int
	}{
		{c.names.try, lockdb.TryOne, 1},
		{c.names.unlock, lockdb.UnlockOne, 1},
		{c.names.plainBatch, lockdb.PlainBatch, 2},
		{c.names.batch, lockdb.Batch, 2},
		{c.names.reconcile, lockdb.Reconcile, 2},
	} {
		guarded := strings.ReplaceAll(st.sql, "$"+strconv.Itoa(st.params+1), strconv.Itoa(int(c.GuardPID)))
		c.front.SendParse(&pgproto3.Parse{Name: st.name, Query: guarded})
	}
	if err := c.sync(); err != nil {
		return err
	}
	_, err := c.answer()
	return err
}

// ask runs SQL and returns the first column of the answer. It is for a session that is being opened.
func (c *Conn) ask(sql string, args ...string) (string, error) {
	if err := c.SendQuery(sql, args...); err != nil {
		return "", err
	}
	return c.answer()
}

func (c *Conn) answer() (string, error) {
	var a Answer
	if err := c.Receive(&a); err != nil {
		return "", err
	}
	value, _ := a.Value()
	return value, a.Error()
}

// Receive reads until an answer is complete. After an error that is [Interrupted] the next Receive continues where this one
// stopped; any other error ends the session.
func (c *Conn) Receive(a *Answer) error {
	for {
		message, err := c.front.Receive()
		switch {
		case err != nil:
			return err
		case isFatal(message):
			return pgconn.ErrorResponseToPgError(message.(*pgproto3.ErrorResponse))
		case a.add(message):
			return nil
		}
	}
}

// isFatal reports whether a message is an error with which the server ends the session.
func isFatal(message pgproto3.BackendMessage) bool {
	e, ok := message.(*pgproto3.ErrorResponse)
	return ok && (e.SeverityUnlocalized == "FATAL" || e.SeverityUnlocalized == "PANIC")
}

// Interrupt interrupts Receive, and each later one until Resume. If Interrupt or Resume fails, the socket is closed, which
// Receive reports.
func (c *Conn) Interrupt() { _ = c.socket.SetReadDeadline(longAgo) }

// Resume lets Receive read again.
func (c *Conn) Resume() { _ = c.socket.SetReadDeadline(time.Time{}) }

// Interrupted reports whether err is that of an interrupted Receive.
func Interrupted(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// Cancel asks the server to cancel the running statement, and returns when the server has handled the request. A request
// that overtakes the statement does nothing.
func (c *Conn) Cancel(ctx context.Context) error {
	if c.cancel == nil {
		return errors.New("this connection cannot be cancelled")
	}
	return c.cancel(ctx)
}

// Close closes the socket, which frees everything that the session holds as soon as the server notices. Under TLS it
// closes the underlying socket, since TLS would first send an alert and wait up to five seconds for that. An error of the
// close does not matter.
func (c *Conn) Close() {
	socket := c.socket
	if secure, ok := socket.(*tls.Conn); ok {
		socket = secure.NetConn()
	}
	_ = socket.Close()
}

// Terminate sends a Terminate message and closes the socket.
func (c *Conn) Terminate() {
	_ = c.socket.SetWriteDeadline(time.Now().Add(farewell)) // whatever fails, the socket is closed
	c.front.Send(&pgproto3.Terminate{})
	_ = c.front.Flush()
	c.Close()
}

const farewell = 2 * time.Second // for a Terminate message to be sent
