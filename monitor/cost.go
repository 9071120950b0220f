package monitor

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// cost is what a signal loses. Lower classes come first, then fewer sessions, then younger work by minutes.
type cost struct {
	class    int
	sessions int
	age      time.Duration
	holds    int // advisory locks and locks in rows
}

// What is lost, the least first.
const (
	costWait    = iota // a wait, in a transaction that has done nothing before
	costIdle           // a transaction that is idle
	costWork           // work: a statement that runs, a prepared transaction, locks of a session or process
	costPrimary        // a leader, a permit, or the run of a job
)

func (c cost) compare(other cost) int {
	return cmp.Or(cmp.Compare(c.class, other.class), cmp.Compare(c.sessions, other.sessions),
		cmp.Compare(c.age.Truncate(time.Minute), other.age.Truncate(time.Minute)))
}

// add returns what two signals lose together.
func (c cost) add(other cost) cost {
	return cost{max(c.class, other.class), c.sessions + other.sessions, c.age + other.age, c.holds + other.holds}
}

const moment = time.Second // how old a transaction may be when its wait begins

// costOf returns what it costs to cancel the wait of a session or, if ends is set, to end it. held are its locks. One
// statement can have worked before its wait, or in transactions before its last.
func costOf(s *Node, ends bool, held []*Lock, at time.Time) cost {
	c := cost{class: costWork, sessions: 1, holds: len(held)}
	since := func(t *time.Time) time.Duration {
		if t == nil {
			return 0
		}
		return max(0, at.Sub(*t))
	}
	if !ends {
		if c.age = since(s.TransactionSince) - since(cmp.Or(s.Wait.WaitingSince, s.StateSince)); c.age < moment {
			c.class, c.age = costWait, 0
		}
		return c
	}
	c.age = since(cmp.Or(s.TransactionSince, s.PreparedAt))
	switch {
	case slices.ContainsFunc(held, (*Lock).primary):
		c.class = costPrimary
	case strings.HasPrefix(s.State, "idle in transaction"):
		c.class = costIdle
	case s.State == "active":
		c.age = max(c.age, since(s.StateSince))
	}
	return c
}

// untouchable says why the session must not be signalled at all, whatever that frees. It is empty if it may be.
func (s *Session) untouchable() string {
	hidden := func(field string) bool { return slices.Contains(s.Hidden, field) }
	switch {
	case s.Lease != nil:
		return ""
	case s.Prepared() && s.GID == "", hidden("user"):
		return "it is not known well enough"
	case s.BackendType == autovacuum && strings.HasSuffix(s.Query, "(to prevent wraparound)"):
		return "let it end: it prevents wraparound, so it would begin again at once"
	case s.WaitEvent == "SyncRep":
		return "its commit waits for a synchronous standby, as the next one will: mend that, or synchronous_standby_names"
	case s.BackendType == autovacuum:
		return "PostgreSQL ends it where it is in the way"
	case slices.Contains(auxiliaries, s.BackendType), !s.Prepared() && s.User == "" && hidden("backend_type"):
		return "the server needs it"
	}
	return ""
}

const autovacuum = "autovacuum worker"
