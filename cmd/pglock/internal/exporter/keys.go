package exporter

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/pglock-toolkit/pglock/monitor"
)

// otherKeys is the label of all keys without their own label.
const otherKeys = "(other)"

// place is the labels of a key's series.
type place struct{ database, key string }

// contention counts the holders and waiters of a key, or of several keys with one label.
type contention struct {
	holders, waiters int
	oldest           time.Duration
}

// keyLabels bounds how many keys have separate series, not just in one scrape but over time: Prometheus keeps every
// series that it has ever seen. A contended key gets a label if one is left, and keeps it, so that its series continue
// when it has no more waiters; only after an hour without waiters may another key take the label.
type keyLabels struct {
	most int

	mu       sync.Mutex
	lastWait map[place]time.Time // of the keys that have a label
}

// retention is how long a key keeps its label without waiters.
const retention = time.Hour

func newKeyLabels(most int) *keyLabels {
	return &keyLabels{most: most, lastWait: map[place]time.Time{}}
}

// measure returns the contention of each key with a label and, for each database, of all other keys together.
func (k *keyLabels) measure(s *monitor.Snapshot) map[place]contention {
	all := map[place]contention{}
	for _, lock := range s.Locks {
		at := place{valid(lock.Database), shorten(valid(lock.Label()))}
		all[at] = all[at].plus(contentionOf(s, lock))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.admit(all, s.TakenAt)
	shown := map[place]contention{}
	for at := range k.lastWait {
		shown[at] = all[at]
	}
	for at, c := range all {
		if _, labelled := k.lastWait[at]; !labelled {
			other := place{at.database, otherKeys}
			shown[other] = shown[other].plus(c)
		}
	}
	return shown
}

// admit gives labels to contended keys, those with the most waiters first.
func (k *keyLabels) admit(all map[place]contention, now time.Time) {
	for at, c := range all {
		if _, labelled := k.lastWait[at]; labelled && c.waiters > 0 {
			k.lastWait[at] = now
		}
	}
	for _, at := range wanted(all) {
		if _, labelled := k.lastWait[at]; labelled {
			continue
		}
		if len(k.lastWait) >= k.most && !k.evict(now) {
			return
		}
		k.lastWait[at] = now
	}
}

// wanted returns the keys with waiters, those with the most waiters first.
func wanted(all map[place]contention) []place {
	waited := slices.DeleteFunc(slices.Collect(maps.Keys(all)), func(at place) bool { return all[at].waiters == 0 })
	slices.SortFunc(waited, func(a, b place) int {
		return cmp.Or(cmp.Compare(all[b].waiters, all[a].waiters), cmp.Compare(all[b].oldest, all[a].oldest),
			cmp.Compare(a.database, b.database), cmp.Compare(a.key, b.key))
	})
	return waited
}

// evict takes the label of the key that has been without waiters the longest, if that is long
// enough.
func (k *keyLabels) evict(now time.Time) bool {
	var oldest place
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
	c := contention{holders: len(lock.Holders), waiters: len(lock.Waiters)}
	for _, waiter := range lock.Waiters {
		c.oldest = max(c.oldest, waited(s, waiter))
	}
	return c
}

// waited is how long a session has waited; 0 if the server does not report it, or not yet.
func waited(s *monitor.Snapshot, w monitor.Waiter) time.Duration {
	if w.WaitingSince == nil {
		return 0
	}
	return max(s.TakenAt.Sub(*w.WaitingSince), 0)
}

func (c contention) plus(other contention) contention {
	return contention{c.holders + other.holders, c.waiters + other.waiters, max(c.oldest, other.oldest)}
}

// shorten cuts a label to a length that a graph can show.
func shorten(key string) string {
	const most = 120
	if utf8.RuneCountInString(key) <= most {
		return key
	}
	return string([]rune(key)[:most-1]) + "…"
}
