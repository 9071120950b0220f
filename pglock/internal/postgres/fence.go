package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/internal/lockdb"
	"github.com/pglock-toolkit/pglock/internal/sqlstate"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/postgres/mux"
)

// Fence implements [driver.Fencer]. It asks on the lock's own session, so a number can only be drawn while that session
// is alive. The session must not wait long for a transaction that alters the sequence, since its other locks and its
// heartbeats would wait too. So each attempt waits only briefly, and Fence repeats it until ctx ends.
func (b *Backend) Fence(ctx context.Context, held driver.Grant) (int64, error) {
	c, err := ours(held)
	if err != nil {
		return 0, err
	}
	for pause := firstFencePause; ; pause = min(2*pause, lastFencePause) {
		number, err := b.drawFence(ctx, c.Sessions()[0])
		if sqlstate.Of(err) != sqlstate.LockNotAvailable {
			return number, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return 0, fmt.Errorf("%w: another session alters sequence pglock.fence: %w: %w", driver.ErrUnavailable, err,
				context.Cause(ctx))
		}
	}
}

const (
	firstFencePause = 50 * time.Millisecond
	lastFencePause  = time.Second
)

func (b *Backend) drawFence(ctx context.Context, session *mux.Session) (int64, error) {
	draw := func() (string, error) {
		return session.Ask(ctx, lockdb.NextFence, namesText(b.options.TrustedOwners))
	}
	number, err := draw()
	if sqlstate.Of(err) == sqlstate.InternalError { // the sequence that was found has been dropped; there may be another
		number, err = draw()
	}
	switch {
	case sqlstate.Of(err) == sqlstate.InternalError:
		return 0, fmt.Errorf("%w: %w", errNoFence, err)
	case err != nil:
		return 0, err
	case number == "":
		return 0, errNoFence
	}
	return strconv.ParseInt(number, 10, 64)
}

// errNoFence reports that there is no fencing sequence.
var errNoFence = fmt.Errorf("%w: there is no sequence pglock.fence (install it with: pglock migrate up)",
	driver.ErrSchemaMissing)

// namesText writes names as a text[] in text form.
func namesText(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
	}
	return "{" + strings.Join(quoted, ",") + "}"
}
