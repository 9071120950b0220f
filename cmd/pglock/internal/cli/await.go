package cli

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/internal/timing"
	"github.com/pglock-toolkit/pglock/pglock"
)

// await calls ping until the server answers, and returns false if the time is over before, or ctx ends. Any answer that is
// no outage will do: what comes next gets the same one.
func (d *dsn) await(ctx context.Context, ping func(context.Context) error) (answered bool) {
	const pause = 500 * time.Millisecond
	for began := time.Now(); d.wait > 0; {
		if !isOutage(sqlstate.ExplainOwn(ping(ctx))) {
			return true
		}
		left := time.Duration(d.wait) - time.Since(began)
		if left <= 0 || !timing.Sleep(ctx, min(pause, left)) {
			break
		}
	}
	return false
}

// isOutage reports whether err may end by itself. During a failover the address may lead to the standby that is about to
// be promoted.
func isOutage(err error) bool {
	return errors.Is(err, pglock.ErrUnavailable) || errors.Is(err, pglock.ErrStandby)
}

func answers(ctx context.Context, config *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// jittered waits for a random part of --jitter, so that not all jobs of all machines begin at one moment.
func (u *lockedRun) jittered(ctx context.Context) (struct{}, error) {
	if !timing.Sleep(ctx, rand.N(time.Duration(u.jitter))) {
		return struct{}{}, context.Cause(ctx)
	}
	return struct{}{}, nil
}
