package redisfallback

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/internal/shorttext"
	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// explain adds to a node's error what it means.
func (n *node) explain(err error) error {
	err = shorttext.Error(err)
	switch {
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return fmt.Errorf("%s: %w: the key of the lock holds a value that is not a lock: %w", n.name, driver.ErrInvalidKey, err)
	case redis.HasErrorPrefix(err, "READONLY"):
		return fmt.Errorf("%s: %w: locks are taken on the primary: %w", n.name, driver.ErrStandby, err)
	case redis.HasErrorPrefix(err, "MOVED"), redis.HasErrorPrefix(err, "ASK"):
		return fmt.Errorf("%s: it is one of several masters of a Cluster: use a client of redis.NewClusterClient: %w",
			n.name, err)
	case redis.HasErrorPrefix(err, "OOM"):
		return fmt.Errorf("%s: its memory is full: held locks are renewed, but no new ones can be taken: %w", n.name, err)
	case isForbidden(err):
		return fmt.Errorf("%s: the user lacks a permission that the documentation of package redisfallback lists: %w", n.name, err)
	case isDenied(err):
		return fmt.Errorf("%s: check the user and the password: %w", n.name, err)
	}
	return fmt.Errorf("%s: %w", n.name, err)
}

// isDenied reports whether the server refuses this client, which a retry does not change.
func isDenied(err error) bool {
	return isForbidden(err) || redis.HasErrorPrefix(err, "NOAUTH") || redis.HasErrorPrefix(err, "WRONGPASS") ||
		redis.HasErrorPrefix(err, "DENIED") || redis.HasErrorPrefix(err, "AUTH <password> called without")
}

// isForbidden reports whether the user lacks a right, perhaps for a command of a script.
func isForbidden(err error) bool {
	return redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "ERR The user executing the script can't")
}

// unavailable returns the error of a round in which too few nodes answered, with the nodes' errors. If so many refuse this
// client that there can be no quorum without them, it matches ErrDenied instead of ErrUnavailable.
func (t *tally) unavailable() error {
	var failures error
	why, denied := driver.ErrUnavailable, 0
	for i, vote := range t.votes {
		if vote.err == nil {
			continue
		}
		if isDenied(vote.err) {
			denied++
		}
		err := t.nodes[i].explain(vote.err)
		if failures != nil {
			err = fmt.Errorf("%w; %w", failures, err)
		}
		failures = err
	}
	if denied > len(t.nodes)-t.quorum {
		why = driver.ErrDenied
	}
	if len(t.nodes) > 1 {
		return fmt.Errorf("%w: %d of %d nodes answered, need %d: %w", why, t.yes+t.no, len(t.nodes), t.quorum, failures)
	}
	if errors.Is(failures, driver.ErrInvalidKey) || errors.Is(failures, driver.ErrStandby) && !t.nodes[0].follows {
		return failures // a retry cannot help
	}
	return fmt.Errorf("%w: %w", why, failures)
}

var (
	errGone    = fmt.Errorf("%w: the server has forgotten it, or it was deleted, overwritten or evicted", driver.Lost(driver.LostGone))
	errTooLate = errors.New("no answer came before the lease was over")
)
