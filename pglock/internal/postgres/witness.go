package postgres

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/lockkeys"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/mux"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
)

// This file refuses what poses as a server and does not keep locks. Each new session must be refused the identity of a
// living one, the witness: one of the same Locker, or of another Locker of this process that was dialled in the same
// way. A witness that has ended proves nothing.

// witnesses are sessions that hold their identities, by their Locker and by how they were dialled.
var witnesses = witnessList{known: map[any]*mux.Session{}}

type witnessList struct {
	mu    sync.Mutex
	known map[any]*mux.Session
}

// find returns a witness for a session of b; nil if there is none.
func (l *witnessList) find(b *Backend, way any) *mux.Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(l.known[b], l.known[way])
}

// add makes w known. The first one of a way stays.
func (l *witnessList) add(w *mux.Session, keys ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		if key != nil && l.known[key] == nil {
			l.known[key] = w
		}
	}
}

func (l *witnessList) forget(s *mux.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, w := range l.known {
		if w == s {
			delete(l.known, key)
		}
	}
}

// wayOf returns how a connection was dialled. Two that were dialled in the same way lead to one server, unless a proxy
// is in between that tells its clients apart by something else. nil is unknown.
func wayOf(conn *pgx.Conn) any {
	var address net.Addr
	switch socket := wire.Bare(conn.PgConn().Conn()).(type) {
	case *net.TCPConn:
		address = socket.RemoteAddr()
	case *net.UnixConn:
		address = socket.RemoteAddr()
	default:
		return nil
	}
	if address == nil {
		return nil
	}
	c := conn.Config()
	return [...]string{address.String(), c.Host, c.Database, c.User, c.RuntimeParams["options"]}
}

// open opens a session that may serve as a witness, or one that waits.
func (b *Backend) open(ctx context.Context, onEnd func(*mux.Session), waits bool) (*mux.Session, error) {
	var w *mux.Session
	var way any
	conn, l, err := b.dialer.Open(ctx, func(conn *pgx.Conn) (identity int32) {
		way = wayOf(conn)
		if w = witnesses.find(b, way); w == nil {
			return 0
		}
		return w.Guard().Identity
	})
	if err != nil {
		return nil, err
	}
	b.server.Store(&conn.Server)
	b.budget.Limit(cmp.Or(b.config.MaxKeys, max(1, conn.LockTable/4)))
	b.env.Logger.Debug("lock session opened", "pid", conn.PID)
	s := mux.NewSession(conn, l, &b.budget, b.env.Logger, func(s *mux.Session) {
		witnesses.forget(s)
		onEnd(s)
	})
	if conn.Free {
		if err := confront(ctx, s, conn, w); err != nil {
			s.End(driver.LostSession, err)
			return nil, err
		}
	}
	if conn.Identity != 0 && !waits { // one that waits may give its identity up for a moment
		witnesses.add(s, b, way)
	}
	return s, nil
}

// confront decides what it means that w's identity was free. If w has ended, or s is on the server that has taken over
// from w's, s proves itself as the first session does. It holds no locks yet: if it ends, it was not opened.
//
// If w ends during this, it has answered before or not. An answer shows that w held its identity when s asked for it,
// since it was taken before, and a session keeps it until it ends.
func confront(ctx context.Context, s *mux.Session, conn *wire.Conn, w *mux.Session) error {
	asking, cancel := context.WithTimeout(ctx, witnessWithin)
	defer cancel()
	if _, err := w.Ask(asking, lockdb.Heartbeat); err == nil {
		if s.Server() == w.Server() {
			return fmt.Errorf("%w: the lock of another connection of this process is free here: connections share a server "+
				"session, or the server keeps no locks (connect directly)", driver.ErrPooler)
		}
		if !takesOver(asking, s, w) {
			return fmt.Errorf("%w: new connections lead to another server than the lock sessions that this process has, "+
				"which live: something in between chooses among servers (connect to one of them)", driver.ErrPooler)
		}
	}
	witnesses.forget(w)
	ask := func(sql string, args ...string) (value string, err error) {
		value, _, err = s.Call(ctx, sql, args...)
		return value, err
	}
	_, err := ask(lockdb.FreeWitness, strconv.Itoa(int(lockkeys.IdentityClass)), strconv.Itoa(int(w.Guard().Identity)))
	if err == nil {
		err = conn.Prove(ask, 0)
	}
	return wire.NotOpened("prove a lock session", err)
}

// takesOver reports whether s is on a server that was promoted after old's, or may be.
func takesOver(ctx context.Context, s, old *mux.Session) bool {
	now, err := s.Ask(ctx, lockdb.ServerBranch)
	before, also := old.Ask(ctx, lockdb.ServerBranch)
	if err != nil || also != nil { // what cannot be asked refuses nothing
		return true
	}
	const timeline = 8 // digits, after the system identifier
	system := max(len(now)-timeline, 0)
	return len(now) == len(before) && now[:system] == before[:system] && now[system:] > before[system:]
}

// witnessWithin is how long a witness may take to answer. One that does not is about to end.
const witnessWithin = 2 * time.Second
