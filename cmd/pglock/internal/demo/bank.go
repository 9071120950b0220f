package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/demo/demodb"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/demo/locks"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

const (
	accounts       = 4
	initialBalance = 1000
	processes      = 4
	transfersEach  = 60
	thinkingTime   = 5 * time.Millisecond // the pause between reading balances and writing them
	watchingTime   = 250 * time.Millisecond
)

// schema makes the tables of the bank and of the deployments, which sqlc reads too.
//
//go:embed schema.sql
var schema string

type audit demodb.AuditRow

func (a audit) String() string {
	return fmt.Sprintf("  %d transfers: %d of %d balances are wrong, and their sum is %d, not %d",
		a.Transfers, a.Wrong, accounts, a.Total, accounts*initialBalance)
}

func (a audit) correct() bool {
	const all = processes * transfersEach
	return a == audit{Total: accounts * initialBalance, Transfers: all, Tally: all}
}

// transfers shows locks inside transactions. Its first run takes none.
func (d *Demo) transfers(ctx context.Context) error {
	d.title("Locks inside transactions")
	if err := demodb.New(d.pool).RegisterNames(ctx); err != nil {
		return err
	}
	d.say("%d processes make %d transfers each between %d accounts with %d each. A transfer reads two balances, "+
		"computes, and writes both. Without locks they overwrite each other's work:",
		processes, transfersEach, accounts, initialBalance)
	result, err := d.runTransfers(ctx, "transfer-nolock", func() error { return nil })
	if err != nil {
		return err
	}
	d.print("%v", result)
	d.say("Now each transaction first calls pglock.LockAllTx(ctx, tx, keys) with the keys of both accounts. " +
		"Meanwhile the monitor sees:")
	var shown *monitor.Snapshot
	result, err = d.runTransfers(ctx, "transfer", func() (err error) {
		shown, err = busiest(ctx, d.pool)
		return err
	})
	if err != nil {
		return err
	}
	d.show(shown)
	d.print("")
	if !result.correct() {
		return fmt.Errorf("locks did not help: %v", result)
	}
	d.print("  %d transfers: all balances match the transfers, and their sum is %d",
		result.Transfers, result.Total)
	return nil
}

// runTransfers calls watch while the workers make transfers, and then audits the accounts.
func (d *Demo) runTransfers(ctx context.Context, part string, watch func() error) (a audit, err error) {
	bank := demodb.New(d.pool)
	if err := errors.Join(bank.CloseBank(ctx), bank.OpenAccounts(ctx), bank.SetTransfers(ctx, 0)); err != nil {
		return a, err
	}
	err = d.direct(ctx, part, func(workers []*worker) error {
		if err := startTogether(workers); err != nil {
			return err
		}
		return watch()
	})
	if err != nil {
		return a, err
	}
	row, err := bank.Audit(ctx)
	return audit(row), err
}

// busiest takes snapshots for a while, at least one, and returns the one with the most waiters.
func busiest(ctx context.Context, db monitor.DBTX) (busiest *monitor.Snapshot, err error) {
	end := time.Now().Add(watchingTime)
	for snapshot, err := range monitor.Watch(ctx, db, time.Millisecond) {
		if err != nil {
			return nil, err
		}
		if busiest == nil || waiters(snapshot) > waiters(busiest) {
			busiest = snapshot
		}
		if time.Now().After(end) {
			return busiest, nil
		}
	}
	return nil, context.Cause(ctx)
}

// waiters counts the waiters with a known blocker; others have just got their lock.
func waiters(s *monitor.Snapshot) (n int) {
	for _, waiter := range s.Waiters() {
		if len(waiter.BlockedBy) > 0 {
			n++
		}
	}
	return n
}

// transferWorker is one of the processes that make transfers.
func transferWorker(ctx context.Context, s workerIO, locked bool) error {
	pool, err := pgxpool.New(ctx, s.url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := errors.Join(pool.Ping(ctx), s.printLine("ready"), s.waitForCue()); err != nil {
		return err
	}
	for range transfersEach {
		if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return transfer(ctx, tx, locked) }); err != nil {
			return err
		}
	}
	return addToTally(ctx, pool, transfersEach)
}

func transfer(ctx context.Context, tx pgx.Tx, locked bool) error {
	payer, payee := 1+rand.IntN(accounts), 1+rand.IntN(accounts-1)
	if payee >= payer {
		payee++
	}
	if locked {
		keys := []pglock.Key{accountKey(payer), accountKey(payee)}
		if err := pglock.LockAllTx(ctx, tx, keys); err != nil {
			return err
		}
	}
	balance, err := demodb.New(tx).Balances(ctx, demodb.BalancesParams{Payer: int32(payer), Payee: int32(payee)})
	if err != nil {
		return err
	}
	time.Sleep(thinkingTime)
	amount := 1 + rand.Int64N(100)
	return write(ctx, tx, payer, payee, balance.Payer-amount, balance.Payee+amount, amount)
}

func accountKey(id int) pglock.Key { return locks.Account(int64(id)) }

// write stores both balances, in an order that avoids deadlocks of row locks.
func write(ctx context.Context, tx pgx.Tx, payer, payee int, payers, payees, amount int64) error {
	batch := &pgx.Batch{}
	if payer < payee {
		batch.Queue(demodb.SetBalance, payers, payer)
		batch.Queue(demodb.SetBalance, payees, payee)
	} else {
		batch.Queue(demodb.SetBalance, payees, payee)
		batch.Queue(demodb.SetBalance, payers, payer)
	}
	batch.Queue(demodb.AddTransfer, payer, payee, amount)
	return tx.SendBatch(ctx, batch).Close()
}

// addToTally reads and writes a counter in a transaction that BeginFunc begins with a lock.
func addToTally(ctx context.Context, pool *pgxpool.Pool, n int64) error {
	return pglock.BeginFunc(ctx, pool, locks.Tally(), func(tx pgx.Tx) error {
		counted, err := demodb.New(tx).Transfers(ctx)
		if err != nil {
			return err
		}
		return demodb.New(tx).SetTransfers(ctx, counted+n)
	})
}
