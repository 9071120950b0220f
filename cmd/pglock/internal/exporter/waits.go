package exporter

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pglock-toolkit/pglock/internal/appname"
	"github.com/pglock-toolkit/pglock/monitor"
)

// These bound how many series the counters of a server have. A counter must not be forgotten, so the first ones stay.
const (
	maxCountedKeys         = 100
	maxCountedApplications = 50
)

// otherApplications is the label of all applications without their own label.
const otherApplications = "other"

// waitCounters counts the waits that the snapshots of a server show. A wait that begins and ends between two snapshots is
// not counted, and of a longer one the part after the last snapshot that shows it.
type waitCounters struct {
	waits, seconds *prometheus.Desc

	mu           sync.Mutex
	seen         map[waitID]*seenWait // in the last snapshot
	totals       map[waitLabels]*waitTotal
	names        map[keyLabel]string // of the keys that have a label
	applications map[string]bool     // those that have a label
}

// waitID identifies a session that waits for a key. It can wait again for the same key; then its wait began later.
type waitID struct {
	at      keyLabel
	pid     int32
	session int64 // when the session began; 0 if that is hidden
}

type seenWait struct {
	labels    waitLabels
	began     time.Time // when it was first seen, until the server says when it began
	estimated bool      // began is when it was first seen
	counted   time.Duration
}

type waitLabels struct {
	at          keyLabel
	application string
}

type waitTotal struct {
	waits   int
	seconds float64
	shown   bool // in a scrape
}

func newWaitCounters(every time.Duration) *waitCounters {
	text := fmt.Sprintf("Snapshots are taken every %v; what they do not show is missing.", every)
	by := []string{"database", "key", "application"}
	return &waitCounters{
		waits: describe("pglock_waits_total", "Waits for advisory locks that snapshots showed since the exporter started. "+
			text, by...),
		seconds: describe("pglock_wait_seconds_total", "How long they had lasted, from their beginning until snapshots last "+
			"showed them. "+text, by...),
		seen: map[waitID]*seenWait{}, totals: map[waitLabels]*waitTotal{}, names: map[keyLabel]string{},
		applications: map[string]bool{},
	}
}

// note counts the waits of a snapshot that is newer than those before.
func (c *waitCounters) note(s *monitor.Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := map[waitID]*seenWait{}
	for wait := range s.Waits() {
		lock, waiter := wait.Lock, wait.Waiter
		if lock == nil || lock.InRow || waiter.Expected {
			continue
		}
		id := waitID{at: keyLabel{valid(lock.Database), lock.RawKey()}, pid: waiter.PID}
		if waiter.Since != nil {
			id.session = waiter.Since.UnixMicro()
		}
		wait := c.seen[id]
		if wait == nil || wait.isOver(*waiter) {
			wait = &seenWait{labels: c.labelsLocked(id.at, shorten(valid(lock.Label())), waiter.Application), began: s.TakenAt, estimated: true}
			c.totalLocked(wait.labels).waits++
		}
		if wait.estimated && waiter.WaitingSince != nil {
			wait.began, wait.estimated = *waiter.WaitingSince, false
		}
		if lasted := s.TakenAt.Sub(wait.began); lasted > wait.counted {
			c.totalLocked(wait.labels).seconds += (lasted - wait.counted).Seconds()
			wait.counted = lasted
		}
		now[id] = wait
	}
	c.seen = now
}

// isOver reports whether the session began to wait again.
func (w *seenWait) isOver(waiter monitor.Waiter) bool {
	return !w.estimated && waiter.WaitingSince != nil && !waiter.WaitingSince.Equal(w.began)
}

// labelsLocked returns the labels of a wait, which are "other" if there are too many.
func (c *waitCounters) labelsLocked(at keyLabel, name, application string) waitLabels {
	if _, known := c.names[at]; !known && len(c.names) >= maxCountedKeys {
		at.key = otherKeys
	} else {
		c.names[at] = name
	}
	application, _ = appname.Split(application)
	application = shorten(valid(application))
	if !c.applications[application] && len(c.applications) >= maxCountedApplications {
		application = otherApplications
	} else {
		c.applications[application] = true
	}
	return waitLabels{at, application}
}

func (c *waitCounters) totalLocked(of waitLabels) *waitTotal {
	total := c.totals[of]
	if total == nil {
		total = &waitTotal{}
		c.totals[of] = total
	}
	return total
}

// sendTo sends the counters, and the names of those keys whose names are not among the shown ones. A new counter is shown
// as 0 once, so that Prometheus sees it increase.
func (c *waitCounters) sendTo(to sink, shown map[keyLabel]contention) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for of, total := range c.totals {
		waits, seconds := float64(total.waits), total.seconds
		if !total.shown {
			waits, seconds, total.shown = 0, 0, true
		}
		to <- prometheus.MustNewConstMetric(c.waits, prometheus.CounterValue, waits, of.at.database, of.at.key, of.application)
		to <- prometheus.MustNewConstMetric(c.seconds, prometheus.CounterValue, seconds, of.at.database, of.at.key, of.application)
	}
	for at, name := range c.names {
		if _, there := shown[at]; !there {
			to.gauge(advisory.keyInfo, 1, at.database, at.key, name)
		}
	}
}
