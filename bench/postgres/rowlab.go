package main

import (
	"context"
	"errors"
	"net"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/bench/internal/report"
	"github.com/pglock-toolkit/pglock/internal/pgserver"
	"github.com/pglock-toolkit/pglock/migrations"
	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/rowlock"
)

// rowLab is a server that waits for its disk, with the schema, and PgBouncer in transaction mode in front of it.
type rowLab struct {
	server  *pgserver.Server
	through string
	stop    func() error
	admin   *pgx.Conn // to the server
}

// withRows measures on a server of its own.
func withRows(measure func(context.Context, *lab, *rowLab) ([]report.Line, error)) measured {
	return func(ctx context.Context, l *lab) (_ []report.Line, err error) {
		r := &rowLab{}
		r.server, err = pgserver.Start(ctx, pgserver.Options{Settings: map[string]string{"fsync": "on"}})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, r.server.Stop()) }()
		if r.through, r.stop, err = startPooler(ctx, r.server.ConnString(pgserver.Superuser)); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, r.stop()) }()
		if r.admin, err = pgx.Connect(ctx, r.server.ConnString(pgserver.Superuser)); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, r.admin.Close(ctx)) }()
		pool, err := pgxpool.New(ctx, r.server.ConnString(pgserver.Superuser))
		if err != nil {
			return nil, err
		}
		defer pool.Close()
		if err := migrations.Up(ctx, pool); err != nil {
			return nil, err
		}
		return measure(ctx, l, r)
	}
}

// locker returns a Locker of rows through the pooler, whose statements are counted unless sent is nil.
func (r *rowLab) locker(ctx context.Context, sent *atomic.Int64) (*pglock.Locker, error) {
	return openRows(ctx, r.through, sent)
}

func openRows(ctx context.Context, address string, sent *atomic.Int64) (*pglock.Locker, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	if sent != nil {
		config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return countingConn{conn, sent}, err
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer pool.Close() // a Locker uses its configuration only
	locker, err := rowlock.New(pool)
	if err != nil {
		return nil, err
	}
	if err := locker.Ping(ctx); err != nil {
		return nil, errors.Join(err, closeLocker(locker))
	}
	return locker, nil
}

// countingConn counts statements of rowlock: each calls a function of the schema, and is sent with its text.
type countingConn struct {
	net.Conn
	sent *atomic.Int64
}

var leaseFunction = regexp.MustCompile(`pglock\.lease_\w+\(`)

func (c countingConn) Write(b []byte) (int, error) {
	c.sent.Add(int64(len(leaseFunction.FindAllIndex(b, -1))))
	return c.Conn.Write(b)
}

// usage is the processor time of the server and of this process, without that of the pooler.
func (r *rowLab) usage() (u usage, err error) {
	if u.server, err = treeTime(r.server.PID()); err == nil {
		u.client, err = ownTime()
	}
	return u, err
}

// metered adds the cost of the measured pairs to c.
func (r *rowLab) metered(c *costs, rate measure) measure { return meter(r.usage, c, rate) }

// busy returns what server and client use of a core for a while.
func (r *rowLab) busy(ctx context.Context, d time.Duration) (server, client float64, err error) {
	before, err := r.usage()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := pause(ctx, d); err != nil {
		return 0, 0, err
	}
	took := time.Since(began)
	after, err := r.usage()
	spent := after.since(before)
	return 100 * spent.server.Seconds() / took.Seconds(), 100 * spent.client.Seconds() / took.Seconds(), err
}
