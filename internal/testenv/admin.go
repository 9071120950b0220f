package testenv

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// admin connects to a database of a server that is no test's, so that its sessions are in no test's database.
type admin struct {
	target string
	pool   *pgxpool.Pool // nil for a server that tests break: then each call has a new connection
}

// pooled returns an admin that uses its connections again, until close is called.
func pooled(target string) (*admin, error) {
	config, err := pgxpool.ParseConfig(target)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 100 // some calls take long
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	return &admin{target, pool}, err
}

// do calls f with a connection that no other call has meanwhile.
func (a *admin) do(f func(context.Context, *pgx.Conn) error) error {
	if a.pool == nil {
		return connected(a.target, f)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return a.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error { return f(ctx, conn.Conn()) })
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
