package simulation

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pglock-toolkit/pglock/pglock"
	"github.com/pglock-toolkit/pglock/pglock/driver"
	"github.com/pglock-toolkit/pglock/pglock/internal/between"
)

// lookAtWaits answers what processes have published, who holds the locks in it, and which sessions wait for a lock.
func (p *process) lookAtWaits(text string) []pgproto3.BackendMessage {
	s := p.server.s
	s.mu.Lock()
	defer s.mu.Unlock()
	p.shown = strings.TrimPrefix(text, between.Prefix)
	type object = map[string]any
	texts, holders, blocked := []object{}, []object{}, []object{}
	for _, other := range p.server.processes {
		if other.shown == "" {
			continue
		}
		texts = append(texts, object{"Process": pidOf(other), "Role": "r", "Text": other.shown})
		s.count.published += len(between.Parse(other.shown))
	}
	for key, l := range p.server.locks.all {
		for _, h := range l.held {
			shared := h.shared && !slices.ContainsFunc(l.queue, func(w *waiter) bool { return !w.shared })
			holders = append(holders, object{"Space": key.Space, "Number": key.Number, "Owner": pidOf(h.by), "Role": "r", "Shared": shared})
		}
		for i, w := range l.queue {
			blocked = append(blocked, object{"Space": key.Space, "Number": key.Number, "PID": pidOf(w.by), "By": l.ahead(w, l.queue[:i])})
		}
	}
	answer, err := json.Marshal(object{
		"Now": time.Now().UnixMicro(), "Self": pidOf(p), "Room": 1000, "Texts": texts, "Holders": holders, "Blocked": blocked,
	})
	if err != nil {
		panic(err)
	}
	return described(column{"sight", string(answer), 25})
}

func pidOf(p *process) string { return strconv.Itoa(int(p.pid)) }

// ahead returns who keeps w waiting.
func (l *lock) ahead(w *waiter, queued []*waiter) (pids []string) {
	for _, h := range l.held {
		if conflict(w.holding, h) {
			pids = append(pids, pidOf(h.by))
		}
	}
	for _, other := range queued {
		if conflict(w.holding, other.holding) {
			pids = append(pids, pidOf(other.by))
		}
	}
	return pids
}

// nested asks for another lock under the context of one that is held. If the schedule has an order of keys, it is a later one, so
// that there are no deadlocks.
func (c *caller) nested(lock *pglock.Lock, keys []driver.KeyID) {
	inner := *c
	inner.under = lock.Context(context.Background())
	if c.s.ordered {
		inner.from = slices.MaxFunc(keys, driver.KeyID.Compare).Number + 1
	}
	if inner.from <= 2 {
		inner.once()
	}
}
