package exporter

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/pglock-toolkit/pglock/monitor"
)

// otherKeys is the label of all keys without their own label.
const otherKeys = "other"

// keyLabel has the labels of a key's series. The key is always a number: a name can become known or be forgotten, and the
// series of a key must continue then.
type keyLabel struct{ database, key string }

// contention counts the locks of a key, or of several keys, and their holders and waiters. Some holders are prepared
// transactions.
type contention struct {
	locks, holders, prepared, waiters int
	// oldest is the longest wait, and held how long the oldest holder can have had the key. Both are 0 for keys whose waits
	// are expected, which must not cause an alert.
	oldest, held time.Duration
	// name is the key's name, or what is known instead.
	name string
}

// keyLabels bounds how many keys have separate series, not just in one scrape but over time, since Prometheus keeps every
// series that it has seen. A contended key gets a label if one is free. It keeps the label, so that its series continue
// when it has no more waiters. After an hour without waiters another key may take the label.
type keyLabels struct {
	max int

	mu       sync.Mutex
	lastWait map[keyLabel]time.Time // of the keys that have a label
}

// retention is how long a key without waiters keeps its label.
const retention = time.Hour

func newKeyLabels(most int) *keyLabels {
	return &keyLabels{max: most, lastWait: map[keyLabel]time.Time{}}
}

// contentions returns the contention of the keys of a snapshot: of advisory locks, or of locks in rows.
func contentions(s *monitor.Snapshot, inRow bool) map[keyLabel]contention {
	all := map[keyLabel]contention{}
	for _, lock := range s.Locks {
		if lock.InRow == inRow {
			at := keyLabel{valid(lock.Database), lock.RawKey()}
			all[at] = all[at].plus(contentionOf(s, lock))
		}
	}
	return all
}

// choose returns the contention of each key with a label and, for each database, of all other keys together.
func (k *keyLabels) choose(all map[keyLabel]contention, now time.Time) map[keyLabel]contention {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.admit(all, now)
	shown := map[keyLabel]contention{}
	for at := range k.lastWait {
		c := all[at]
		c.name = cmp.Or(c.name, at.key) // while it is free
		shown[at] = c
	}
	for at, c := range all {
		if _, labelled := k.lastWait[at]; !labelled {
			other := keyLabel{at.database, otherKeys}
			c.name = otherKeys
			shown[other] = shown[other].plus(c)
		}
	}
	return shown
}

// admit gives labels to contended keys, those with the most waiters first.
func (k *keyLabels) admit(all map[keyLabel]contention, now time.Time) {
	for at, c := range all {
		if _, labelled := k.lastWait[at]; labelled && c.waiters > 0 {
			k.lastWait[at] = now
		}
	}
	for _, at := range wanted(all) {
		if _, labelled := k.lastWait[at]; labelled {
			continue
		}
		if len(k.lastWait) >= k.max && !k.evict(now) {
			return
		}
		k.lastWait[at] = now
	}
}

// wanted returns the keys with waiters, those with the most waiters first.
func wanted(all map[keyLabel]contention) []keyLabel {
	waited := slices.DeleteFunc(slices.Collect(maps.Keys(all)), func(at keyLabel) bool { return all[at].waiters == 0 })
	slices.SortFunc(waited, func(a, b keyLabel) int {
		return cmp.Or(cmp.Compare(all[b].waiters, all[a].waiters), cmp.Compare(all[b].oldest, all[a].oldest),
			cmp.Compare(a.database, b.database), cmp.Compare(a.key, b.key))
	})
	return waited
}

// evict removes the label of the key that has been without waiters the longest, if that is longer than retention.
func (k *keyLabels) evict(now time.Time) bool {
	var oldest keyLabel
	found := false
	for at, last := range k.lastWait {
		if now.Sub(last) > retention && (!found || last.Before(k.lastWait[oldest])) {
			oldest, found = at, true
		}
	}
	delete(k.lastWait, oldest)
	return found
}

func contentionOf(s *monitor.Snapshot, lock monitor.Lock) contention {
	c := contention{locks: 1, holders: len(lock.Holders), waiters: len(lock.Waiters), name: shorten(valid(strings.TrimSuffix(lock.Label(), " (row)")))}
	for _, waiter := range lock.Waiters {
		if waiter.Expected {
			continue
		}
		c.oldest = max(c.oldest, waited(s, waiter))
	}
	lasts := slices.Contains([]string{"leader", "semaphore", "tick"}, lock.Kind) // it is held for as long as a leader leads
	for _, holder := range lock.Holders {
		if holder.Prepared() {
			c.prepared++
		}
		if !lasts {
			c.held = max(c.held, heldFor(s, holder))
		}
	}
	return c
}

// waited returns how long a session has waited, or 0 if the server does not report it, or not yet.
func waited(s *monitor.Snapshot, w monitor.Waiter) time.Duration {
	if w.WaitingSince == nil {
		return 0
	}
	return max(s.TakenAt.Sub(*w.WaitingSince), 0)
}

func (c contention) plus(other contention) contention {
	return contention{c.locks + other.locks, c.holders + other.holders, c.prepared + other.prepared, c.waiters + other.waiters,
		max(c.oldest, other.oldest), max(c.held, other.held), cmp.Or(c.name, other.name)}
}

// shorten cuts a label to a length that a graph can show.
func shorten(key string) string {
	const most = 120
	if utf8.RuneCountInString(key) <= most {
		return key
	}
	return string([]rune(key)[:most-1]) + "…"
}
