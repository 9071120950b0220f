package redisfallback

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// explain says what a node's error means.
func (n *node) explain(err error) error {
	switch {
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return fmt.Errorf("%s: the key of the lock holds something that is no lock: %w", n.name, err)
	case redis.HasErrorPrefix(err, "NOPERM"):
		return fmt.Errorf("%s: the user lacks a permission that package redisfallback lists: %w", n.name, err)
	}
	return fmt.Errorf("%s: %w", n.name, err)
}

// unavailable says that too few nodes answered, and what came from the others.
func (t *tally) unavailable() error {
	var failures []string
	var causes []error
	for i, vote := range t.votes {
		if vote.err != nil {
			err := t.nodes[i].explain(vote.err)
			failures, causes = append(failures, err.Error()), append(causes, err)
		}
	}
	if len(t.nodes) == 1 {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, causes[0])
	}
	return fmt.Errorf("%w: %d of %d nodes answered, and %d must: %w", driver.ErrUnavailable,
		t.yes+t.no, len(t.nodes), t.quorum, &nodeErrors{strings.Join(failures, "; "), causes})
}

// nodeErrors are the errors of several nodes in one line.
type nodeErrors struct {
	text   string
	causes []error
}

func (e *nodeErrors) Error() string { return e.text }

// Unwrap returns the nodes' errors.
func (e *nodeErrors) Unwrap() []error { return e.causes }

var (
	errGone    = fmt.Errorf("%w: the server has forgotten it, or it was deleted, overwritten or evicted", driver.ErrLost)
	errTooLate = errors.New("no answer came before the lease was over")
)
