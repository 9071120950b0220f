package postgres

import (
	"sync/atomic"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// grant is a set of keys that one session holds.
type grant struct {
	session *session
	spaces  []int16
	numbers []int64
	shared  bool
	lost    func(driver.Reason, error)
	told    atomic.Bool
}

func newGrant(s *session, r driver.Request) *grant {
	spaces, numbers := arrays(r.Keys)
	return &grant{session: s, spaces: spaces, numbers: numbers, shared: r.Shared, lost: r.Lost}
}

// Deadline implements [driver.Grant]: the session's lease is the grant's.
func (g *grant) Deadline() driver.Instant { return g.session.deadline() }

// tell reports the loss to the front end, at most once.
func (g *grant) tell(why driver.Reason, err error) {
	if g.told.CompareAndSwap(false, true) {
		g.lost(why, err)
	}
}

// size is the number of keys.
func (g *grant) size() int64 { return int64(len(g.numbers)) }

// arrays splits keys into the two arrays that the statements take.
func arrays(keys []driver.Key) (spaces []int16, numbers []int64) {
	spaces, numbers = make([]int16, len(keys)), make([]int64, len(keys))
	for i, key := range keys {
		spaces[i], numbers[i] = int16(key.Space), key.Number
	}
	return spaces, numbers
}
