package testenv

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"
)

// admin connects to a database of a server that is no test's, so that its sessions are in no test's database.
type admin struct {
	target string
	keep   bool // whether connections are used again, which a server that tests break does not permit

	mu   sync.Mutex
	idle []*pgx.Conn
}

// do calls f with a connection that no other call has meanwhile.
func (a *admin) do(f func(context.Context, *pgx.Conn) error) error {
	if !a.keep {
		return connected(a.target, f)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := a.get(ctx)
	if err != nil {
		return err
	}
	if err := f(ctx, conn); err != nil {
		return errors.Join(err, conn.Close(ctx))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.idle = append(a.idle, conn)
	return nil
}

// get returns an idle connection that still works, or else a new one.
func (a *admin) get(ctx context.Context) (*pgx.Conn, error) {
	for {
		conn := a.take()
		if conn == nil {
			return pgx.Connect(ctx, a.target)
		}
		if conn.Ping(ctx) == nil {
			return conn, nil
		}
		_ = conn.Close(ctx) // the server has ended it
	}
}

func (a *admin) take() *pgx.Conn {
	a.mu.Lock()
	defer a.mu.Unlock()
	last := len(a.idle) - 1
	if last < 0 {
		return nil
	}
	conn := a.idle[last]
	a.idle = a.idle[:last]
	return conn
}

// close closes the idle connections.
func (a *admin) close() (err error) {
	for conn := a.take(); conn != nil; conn = a.take() {
		err = errors.Join(err, conn.Close(context.Background()))
	}
	return err
}

// connected calls do with a new connection.
func connected(connString string, do func(context.Context, *pgx.Conn) error) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, connString)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	return do(ctx, conn)
}

func execute(statement string) func(context.Context, *pgx.Conn) error {
	return func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statement)
		return err
	}
}
