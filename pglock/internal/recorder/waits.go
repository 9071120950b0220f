package recorder

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/between"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/wire"
)

// Waits publishes the waits of this process, and sees those of others, on a connection whose last statement they see.
type Waits struct{ link *link }

// NewWaits returns a Waits that has not dialled yet.
func NewWaits(dialer *wire.Dialer) *Waits { return &Waits{newLink(dialer)} }

// Look publishes text, which begins with [between.Prefix], in place of the last one, and looks.
func (w *Waits) Look(ctx context.Context, text string) (sight between.Sight, err error) {
	var answer string
	err = w.link.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, text+lockdb.LookAtWaits).Scan(&answer)
	})
	if err != nil {
		return sight, err
	}
	return decodeSight(answer)
}

// Withdraw publishes nothing any more.
func (w *Waits) Withdraw(ctx context.Context) error {
	return w.link.do(ctx, func(ctx context.Context, conn *pgx.Conn) error { return conn.Ping(ctx) })
}

// CancelTx ends a transaction's wait for a lock. When it has returned, no later statement is cancelled.
func (w *Waits) CancelTx(ctx context.Context, tx between.Tx) error {
	pid, err := strconv.Atoi(tx.PID)
	if err != nil {
		return err
	}
	return w.link.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := lockdb.New(conn).CancelTx(ctx, lockdb.CancelTxParams{Pid: int32(pid), Began: tx.Began})
		return err
	})
}

// Close ends the connection.
func (w *Waits) Close() { w.link.close() }

func decodeSight(answer string) (s between.Sight, err error) {
	var rows struct {
		Now   int64
		Self  json.Number
		Room  int
		Texts []struct {
			PID, Role         json.Number
			Application, Text string
		}
		Holders []struct {
			PID, Role json.Number
			Space     driver.Space
			Number    string // hexadecimal
		}
		Transactions []struct {
			PID, Role json.Number
			Began     int64
		}
		Blocked []struct {
			PID    json.Number
			Space  driver.Space
			Number int64
			By     []json.Number
		}
	}
	if err := json.Unmarshal([]byte(answer), &rows); err != nil {
		return s, fmt.Errorf("read the waits of processes: %w", err)
	}
	s.Now, s.Self, s.Room = rows.Now, rows.Self.String(), rows.Room-1
	for _, t := range rows.Texts {
		for _, w := range between.Parse(t.Text) {
			w.Process, w.Role, w.Application = t.PID.String(), t.Role.String(), t.Application
			s.Waits = append(s.Waits, w)
		}
	}
	for _, h := range rows.Holders {
		n, _ := strconv.ParseUint(h.Number, 16, 64) // the statement has read it in this form
		key := driver.KeyID{Space: h.Space, Number: int64(n)}
		s.Holders = append(s.Holders, between.Holder{Key: key, Owner: h.PID.String(), Role: h.Role.String()})
	}
	for _, x := range rows.Transactions {
		s.Txs = append(s.Txs, between.OpenTx{Tx: between.Tx{PID: x.PID.String(), Began: x.Began}, Role: x.Role.String()})
	}
	for _, b := range rows.Blocked {
		blocked := between.Blocked{PID: b.PID.String(), Key: driver.KeyID{Space: b.Space, Number: b.Number}}
		for _, pid := range b.By {
			blocked.By = append(blocked.By, pid.String())
		}
		s.Blocked = append(s.Blocked, blocked)
	}
	return s, nil
}
