package recorder

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

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
		return conn.QueryRow(ctx, text+lockdb.LookAtWaits, "").Scan(&answer)
	})
	if err != nil {
		return sight, err
	}
	return DecodeSight(answer)
}

// Withdraw publishes nothing any more.
func (w *Waits) Withdraw(ctx context.Context) error {
	return w.link.do(ctx, func(ctx context.Context, conn *pgx.Conn) error { return conn.Ping(ctx) })
}

// CancelTx ends a transaction's wait for a lock. When it has returned, no later statement is cancelled.
func (w *Waits) CancelTx(ctx context.Context, tx between.Tx) error {
	return w.link.do(ctx, func(ctx context.Context, conn *pgx.Conn) error { return CancelTx(ctx, lockdb.New(conn), tx) })
}

// CancelTx ends the wait of tx for a lock.
func CancelTx(ctx context.Context, q *lockdb.Queries, tx between.Tx) error {
	pid, err := strconv.Atoi(tx.PID)
	if err != nil {
		return err
	}
	_, err = q.CancelTx(ctx, lockdb.CancelTxParams{Pid: int32(pid), Began: tx.Began})
	return err
}

// Close ends the connection.
func (w *Waits) Close() { w.link.close() }

// DecodeSight reads an answer to queries/waits.sql.
func DecodeSight(answer string) (s between.Sight, err error) {
	var rows struct {
		Now, Room int64
		Self      string
		Texts     []struct{ PID, Role, Application, Text string }
		Holders   []struct {
			PID, Role string
			Space     driver.Space
			Number    string // hexadecimal
			Shared    bool
		}
		Transactions []struct {
			PID, Role string
			Began     int64
		}
		Blocked []struct {
			PID    string
			Space  driver.Space
			Number int64
			By     []string
		}
	}
	if err := json.Unmarshal([]byte(answer), &rows); err != nil {
		return s, fmt.Errorf("read the waits of processes: %w", err)
	}
	s.Now, s.Self, s.Room = rows.Now, rows.Self, int(rows.Room)-1
	for _, t := range rows.Texts {
		for _, w := range between.Parse(strings.TrimPrefix(t.Text, between.Prefix)) {
			if w.Process, w.Role, w.Application = t.PID, t.Role, t.Application; w.Process != "" {
				s.Waits = append(s.Waits, w)
			}
		}
	}
	for _, h := range rows.Holders {
		n, _ := strconv.ParseUint(h.Number, 16, 64) // the server has read it in this form
		s.Holders = append(s.Holders, between.Holder{Key: driver.KeyID{Space: h.Space, Number: int64(n)}, Owner: h.PID, Role: h.Role, Shared: h.Shared})
	}
	for _, x := range rows.Transactions {
		s.Txs = append(s.Txs, between.OpenTx{Tx: between.Tx{PID: x.PID, Began: x.Began}, Role: x.Role})
	}
	for _, b := range rows.Blocked {
		s.Blocked = append(s.Blocked, between.Blocked{PID: b.PID, Key: driver.KeyID{Space: b.Space, Number: b.Number}, By: b.By})
	}
	return s, nil
}
