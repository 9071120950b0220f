package web

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
)

const (
	maxEvents   = 200 // lines of the journal
	groupAbove  = 2   // how many alike events have a line each
	groupWithin = 10 * time.Second
	maxGrouped  = 20 // events of a group that are sent
)

// event is a line of the journal: an event, or a group of alike ones.
type event struct {
	ID    string    `json:"id"`
	At    time.Time `json:"at"`
	Until time.Time `json:"until"` // the last of a group; otherwise At
	Kind  string    `json:"kind"`
	Class string    `json:"class"`
	Key   string    `json:"key"`
	Text  string    `json:"text"`
	Full  string    `json:"full"` // if there is more to say
	Count int       `json:"count"`
	Some  []string  `json:"some"` // texts of the first events of a group
}

// classes say how the page marks events.
var classes = map[journal.Kind]string{
	journal.WaitBegan: "waits", journal.WaitEnded: "waits",
	journal.Acquired: "holders", journal.PassedOn: "holders", journal.Released: "holders",
	journal.Deadlock: "deadlocks", journal.DeadlockOver: "deadlocks",
	journal.SessionEnded: "sessions", journal.Gap: "gaps",
}

// alike says which events can share a line: those of a kind and key, in the same ten seconds by the clock. So a line keeps its
// place when earlier events are forgotten.
type alike struct {
	kind journal.Kind
	key  string
	time int64
}

// eventsOf returns the lines of the journal, the latest first.
func eventsOf(events []journal.Event, only string) []event {
	lines := []event{}
	groups, order := map[alike][]int{}, []alike{}
	for i := range slices.Backward(events) {
		e := &events[i]
		if only != "" && e.Key != only {
			continue
		}
		id := alike{e.Kind, e.Key, e.At.UnixNano() / int64(groupWithin)}
		if groups[id] == nil {
			order = append(order, id)
		}
		groups[id] = append(groups[id], i)
	}
	seen := map[string]int{}
	for _, id := range order {
		if len(lines) >= maxEvents {
			break
		}
		slices.Reverse(groups[id])
		added := linesOf(events, id, groups[id])
		for i := range added {
			if seen[added[i].ID]++; seen[added[i].ID] > 1 { // for example in another database
				added[i].ID = fmt.Sprintf("%s-%d", added[i].ID, seen[added[i].ID])
			}
		}
		lines = append(lines, added...)
	}
	slices.SortStableFunc(lines, func(a, b event) int { return b.Until.Compare(a.Until) })
	return lines
}

// linesOf returns the lines for alike events, the latest first.
func linesOf(events []journal.Event, id alike, members []int) []event {
	class := classes[id.kind]
	if len(members) > groupAbove && (id.key != "" || id.kind == journal.SessionEnded) {
		return []event{groupOf(events, id, members)}
	}
	var lines []event
	for _, i := range slices.Backward(members) {
		e := &events[i]
		one := event{At: e.At.UTC(), Until: e.At.UTC(), Kind: string(id.kind), Class: class, Key: e.Key, Text: shortText(e), Count: 1, Some: []string{}}
		if full := textOf(e); full != one.Text {
			one.Full = full
		}
		one.ID = fmt.Sprintf("%d-%s", e.At.UnixMicro(), short(e.Key+" "+textOf(e)))
		lines = append(lines, one)
	}
	return lines
}

// shortText describes an event without statements, and without since when locks are held.
func shortText(e *journal.Event) string {
	bare := *e
	bare.Code, bare.SeenSince = "", nil
	bare.BlockedBy = slices.Clone(e.BlockedBy)
	for i := range bare.BlockedBy {
		bare.BlockedBy[i].Code, bare.BlockedBy[i].SeenSince = "", nil
	}
	return textOf(&bare)
}

// textOf describes an event without its key, which the page shows before it.
func textOf(e *journal.Event) string {
	return cut(strings.TrimPrefix(e.String(), e.Key+": "), 2*maxQuery)
}

func groupOf(events []journal.Event, id alike, members []int) event {
	first, last := &events[members[0]], &events[members[len(members)-1]]
	group := event{ID: fmt.Sprintf("%d-%s-group", id.time, short(string(id.kind)+" "+id.key)), At: first.At.UTC(), Until: last.At.UTC(),
		Kind: string(id.kind), Class: classes[id.kind], Key: id.key, Count: len(members), Some: []string{}}
	for _, i := range members[:min(len(members), maxGrouped)] {
		group.Some = append(group.Some, shortText(&events[i]))
	}
	group.Text = groupText(id.kind, len(members), last)
	return group
}

// groupText describes alike events, of which there are several.
func groupText(kind journal.Kind, n int, last *journal.Event) string {
	switch kind {
	case journal.WaitBegan:
		return fmt.Sprintf("%d sessions began to wait", n)
	case journal.WaitEnded:
		return fmt.Sprintf("%d sessions stopped waiting", n)
	case journal.Acquired:
		return fmt.Sprintf("acquired %d times, at last by %s", n, last.Session)
	case journal.PassedOn:
		return fmt.Sprintf("passed on %d times, at last to %s", n, last.Session)
	case journal.Released:
		return fmt.Sprintf("released %d times, at last by %s", n, last.Session)
	case journal.SessionEnded:
		return fmt.Sprintf("%d sessions ended", n)
	}
	return fmt.Sprintf("%s %d times", kind, n)
}
