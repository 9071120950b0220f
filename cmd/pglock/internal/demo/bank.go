package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

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

const createBank = `
CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL);
CREATE TABLE transfer (payer int NOT NULL, payee int NOT NULL, amount bigint NOT NULL);
CREATE TABLE tally (process int, transfers bigint NOT NULL);
INSERT INTO tally VALUES (0, 0);
SELECT pglock.register(VARIADIC array_agg('account:' || id)) FROM generate_series(1, 4) AS id;
SELECT pglock.register('tally')`

const openBank = `
TRUNCATE account, transfer;
INSERT INTO account SELECT id, 1000 FROM generate_series(1, 4) AS id;
UPDATE tally SET transfers = 0`

// auditBank compares the accounts with the sums of the transfers.
const auditBank = `
SELECT sum(balance)::bigint,
       count(*) FILTER (WHERE balance <> 1000 + (
           SELECT coalesce(sum(CASE id WHEN payee THEN amount ELSE -amount END), 0)
           FROM transfer WHERE id IN (payer, payee))),
       (SELECT count(*) FROM transfer), (SELECT transfers FROM tally)
FROM account`

type audit struct{ Total, Wrong, Transfers, Tally int64 }

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
	if _, err := d.pool.Exec(ctx, createBank); err != nil {
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
	if _, err := d.pool.Exec(ctx, openBank); err != nil {
		return a, err
	}
	err = d.direct(ctx, processes, part, func(workers []*worker) error {
		if err := startTogether(workers); err != nil {
			return err
		}
		return watch()
	})
	if err != nil {
		return a, err
	}
	rows, err := d.pool.Query(ctx, auditBank)
	if err != nil {
		return a, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[audit])
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
	const read = "SELECT a.balance, b.balance FROM account a, account b WHERE a.id = $1 AND b.id = $2"
	var payers, payees int64
	if err := tx.QueryRow(ctx, read, payer, payee).Scan(&payers, &payees); err != nil {
		return err
	}
	time.Sleep(thinkingTime)
	amount := 1 + rand.Int64N(100)
	return write(ctx, tx, payer, payee, payers-amount, payees+amount, amount)
}

func accountKey(id int) pglock.Key { return locks.Account(int64(id)) }

// write stores both balances, in an order that avoids deadlocks of row locks.
func write(ctx context.Context, tx pgx.Tx, payer, payee int, payers, payees, amount int64) error {
	const update = "UPDATE account SET balance = $2 WHERE id = $1"
	batch := &pgx.Batch{}
	if payer < payee {
		batch.Queue(update, payer, payers)
		batch.Queue(update, payee, payees)
	} else {
		batch.Queue(update, payee, payees)
		batch.Queue(update, payer, payers)
	}
	batch.Queue("INSERT INTO transfer VALUES ($1, $2, $3)", payer, payee, amount)
	return tx.SendBatch(ctx, batch).Close()
}

// addToTally reads and writes a counter in a transaction that BeginFunc begins with a lock.
func addToTally(ctx context.Context, pool *pgxpool.Pool, n int64) error {
	return pglock.BeginFunc(ctx, pool, locks.Tally(), func(tx pgx.Tx) error {
		var counted int64
		if err := tx.QueryRow(ctx, "SELECT transfers FROM tally").Scan(&counted); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE tally SET transfers = $1", counted+n)
		return err
	})
}
