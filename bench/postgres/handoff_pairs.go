package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/leader"
)

// openPairs connects a worker in both ways.
func openPairs(ctx context.Context, connString string) (pairs map[string]pair, closePairs func() error, err error) {
	conn, err := pgx.Connect(ctx, connString)
	if err != nil {
		return nil, nil, err
	}
	locker, err := pglock.Open(ctx, connString)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close(ctx))
	}
	pairs = map[string]pair{ours: lockerPair(locker), elected: leaderPair(locker), plain: plainConnPair(conn)}
	return pairs, func() error { return errors.Join(closeLocker(locker), conn.Close(ctx)) }, nil
}

func lockerPair(locker *pglock.Locker) pair {
	var held *pglock.Lock
	return pair{
		lock: func(ctx context.Context) (err error) {
			held, err = locker.Lock(ctx, pglock.Int64Key(handoffKey))
			return err
		},
		unlock: func(ctx context.Context) error { return held.Unlock(ctx) },
	}
}

// leaderPair leads from lock to unlock, and then does not campaign again.
func leaderPair(locker *pglock.Locker) pair {
	var (
		e     *leader.Elector
		stop  context.CancelFunc
		ended chan error
	)
	return pair{
		lock: func(ctx context.Context) (err error) {
			e, err = leader.New(locker, pglock.Int64Key(handoffKey), leader.Backoff(time.Hour, time.Hour))
			if err != nil {
				return err
			}
			var running context.Context
			running, stop = context.WithCancel(context.WithoutCancel(ctx))
			begun := make(chan struct{})
			ended = make(chan error, 1)
			go func() {
				ended <- e.Run(running, func(ctx context.Context, _ *pglock.Lock) error {
					close(begun)
					<-ctx.Done()
					return nil
				})
			}()
			select {
			case <-begun:
				return nil
			case err := <-ended:
				return err
			case <-ctx.Done():
				stop()
				return errors.Join(context.Cause(ctx), <-ended)
			}
		},
		unlock: func(ctx context.Context) error {
			err := e.Resign(ctx)
			stop()
			if runErr := <-ended; !errors.Is(runErr, context.Canceled) {
				err = errors.Join(err, runErr)
			}
			return err
		},
	}
}

func plainConnPair(conn *pgx.Conn) pair {
	run := func(sql string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := conn.Exec(ctx, sql, handoffKey)
			return err
		}
	}
	return pair{lock: run(plainLock), unlock: run(plainUnlock)}
}
