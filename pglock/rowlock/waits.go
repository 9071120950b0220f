package rowlock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/between"
	"github.com/pglock-toolkit/pglock/pglock/internal/link"
)

// Published implements [between.Backend].
func (b *backend) Published(key driver.KeyID) driver.KeyID { return published(key) }

func published(key driver.KeyID) driver.KeyID {
	key.Space += between.Rows
	return key
}

// Owner implements [between.Backend].
func (b *backend) Owner(held driver.Grant) string {
	g, err := ours(held)
	if err != nil {
		return ""
	}
	hash := sha256.Sum256(g.holder.id.Bytes[:])
	return hex.EncodeToString(hash[:8])
}

// SeesRows implements [between.Backend].
func (b *backend) SeesRows() bool { return true }

// Look implements [between.Backend]. It publishes text in the row of the holder, and sees sessions too.
func (b *backend) Look(ctx context.Context, text string) (between.Sight, error) {
	id := b.id()
	seen, err := link.Ask(ctx, b.calls, func(ctx context.Context, q *lockdb.Queries) (seen [2]string, err error) {
		if seen[0], err = q.PublishLeaseWaits(ctx, lockdb.PublishLeaseWaitsParams{Holder: id, Waits: text}); err == nil {
			seen[1], err = q.LookAtWaits(ctx, seen[0])
		}
		return seen, err
	})
	if err != nil {
		return between.Sight{}, err
	}
	return between.Read(seen[1], seen[0])
}
