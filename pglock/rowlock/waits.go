package rowlock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/between"
	"github.com/pglock-toolkit/pglock/pglock/internal/recorder"
)

// board publishes waits in the row of the holder, and sees those of sessions too.
type board struct{ *backend }

// Board implements [between.Backend].
func (b *backend) Board() between.Board { return board{b} }

// Published implements [between.Backend].
func (b *backend) Published(key driver.KeyID) driver.KeyID { return published(key) }

func published(key driver.KeyID) driver.KeyID {
	key.Space += between.Rows
	return key
}

// Owners implements [between.Backend].
func (b *backend) Owners(held driver.Grant) []string {
	id := b.id()
	if g, err := ours(held); err == nil {
		id = g.holder.id
	}
	hash := sha256.Sum256(id.Bytes[:])
	return []string{hex.EncodeToString(hash[:8])}
}

// SeesRows implements [between.Backend].
func (b *backend) SeesRows() bool { return true }

// Look implements [between.Board].
func (b board) Look(ctx context.Context, text string) (s between.Sight, err error) {
	var rows, sessions string
	id := b.id()
	err = b.calls.again(ctx, func(ctx context.Context, q *lockdb.Queries) (err error) {
		if rows, err = q.PublishLeaseWaits(ctx, lockdb.PublishLeaseWaitsParams{Holder: id, Waits: text}); err == nil {
			sessions, err = q.LookAtWaits(ctx, rows)
		}
		return err
	})
	if err != nil {
		return s, err
	}
	if s, err = recorder.DecodeSight(sessions); err != nil {
		return s, err
	}
	more, err := recorder.DecodeSight(rows)
	for i := range more.Waits {
		more.Waits[i].SeesAll = true
	}
	s.Self, s.Room = more.Self, roomInRow
	s.Waits, s.Holders = append(s.Waits, more.Waits...), append(s.Holders, more.Holders...)
	return s, err
}

// Withdraw implements [between.Board].
func (b board) Withdraw(ctx context.Context) error {
	id := b.id()
	return b.calls.again(ctx, func(ctx context.Context, q *lockdb.Queries) error {
		_, err := q.PublishLeaseWaits(ctx, lockdb.PublishLeaseWaitsParams{Holder: id})
		return err
	})
}

// CancelTx implements [between.Board].
func (b board) CancelTx(ctx context.Context, tx between.Tx) error {
	return b.calls.do(ctx, func(ctx context.Context, q *lockdb.Queries) error { return recorder.CancelTx(ctx, q, tx) })
}

// roomInRow is what lease_waits keeps of a text.
const roomInRow = 4000
