// Package ratelimittest has the suite that every store of rate limits passes, [Exercise], and a store in memory.
package ratelimittest

import (
	"context"
	"sync"
	"time"

	"github.com/pglock-toolkit/pglock/internal/ratestore"
)

// Memory is a store of rate limits in memory. Limiters that share a Memory limit together, as those of several
// processes do. The zero Memory is ready to use.
type Memory struct {
	mu   sync.Mutex
	busy map[string]int64
}

// Take implements [ratestore.Store].
func (m *Memory) Take(ctx context.Context, runs []ratestore.Run) ([]ratestore.Grant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy == nil {
		m.busy = map[string]int64{}
	}
	now := time.Now().UnixNano()
	grants := make([]ratestore.Grant, len(runs))
	refused := false
	for i, run := range runs {
		if i == 0 || runs[i-1].Key != run.Key {
			refused = false
		}
		price := run.Amount * run.Interval
		start := max(m.busy[run.Key], now)
		granted := max(0, min(run.Count, (now+run.Tolerance+run.Patience-start)/price))
		if refused && run.Patience == 0 {
			granted = 0
		}
		if granted > 0 {
			m.busy[run.Key] = start + granted*price
		}
		refused = refused || granted < run.Count && run.Patience == 0
		grants[i] = ratestore.Grant{Granted: granted, Start: start, At: now}
	}
	return grants, ctx.Err()
}

// Return implements [ratestore.Store].
func (m *Memory) Return(_ context.Context, key string, until, price int64) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy[key] != until {
		return false, nil
	}
	m.busy[key] -= price
	return true, nil
}
