package tui

import (
	"cmp"
	"slices"
)

// order is a way to sort a page: by weight, the largest first, or alphabetically by text.
type order struct {
	name   string
	weight func(row) int64
	text   func(row) string
}

var (
	byWait    = order{name: "longest wait", weight: func(r row) int64 { return int64(r.longest) }}
	byWaiters = order{name: "waiters", weight: func(r row) int64 { return int64(len(r.lock.Waiters)) }}
	byHolders = order{name: "holders", weight: func(r row) int64 { return int64(len(r.lock.Holders)) }}
	byKey     = order{name: "key", text: func(r row) string { return label(r.lock) }}
	byBehind  = order{name: "sessions behind", weight: func(r row) int64 { return deadlocksFirst(r, expectedLast(r, int64(r.behind))) }}
	byHeld    = order{name: "locks held", weight: func(r row) int64 { return int64(len(r.session.held)) }}
	byPID     = order{name: "process ID", weight: func(r row) int64 { return -int64(r.session.PID) }}
)

// deadlocksFirst sorts rows in a certain deadlock before all others.
func deadlocksFirst(r row, weight int64) int64 {
	if r.certain {
		return 1<<62 + weight
	}
	return weight
}

// expectedLast sorts sessions that others wait for only as they do in normal work, such as a leader, after all others that
// others wait for.
func expectedLast(r row, weight int64) int64 {
	if r.session.node != nil && r.session.wait() == nil && !r.isRoot() {
		return weight - 1<<32
	}
	return weight
}

// orders are the ways to sort each page, the default first.
var orders = [pages][]order{
	pageKeys:     {byWait, byWaiters, byHolders, byKey},
	pageTree:     {byBehind, byWait, byPID},
	pageSessions: {byBehind, byHeld, byWait, byPID},
}

func (q tableQuery) sortedBy() order { return orders[q.page][q.order[q.page]] }

// sorted returns items in the given order. The sort is stable.
func sorted[T any](q tableQuery, items []T, rowOf func(T) row) []T {
	type ranked struct {
		item   T
		weight int64
		text   string
	}
	by, all := q.sortedBy(), make([]ranked, len(items))
	for i, item := range items {
		all[i].item = item
		if by.text != nil {
			all[i].text = by.text(rowOf(item))
		} else {
			all[i].weight = by.weight(rowOf(item))
		}
	}
	direction := 1
	if q.reversed[q.page] {
		direction = -1
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		return direction * cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.text, b.text))
	})
	result := make([]T, len(all))
	for i := range all {
		result[i] = all[i].item
	}
	return result
}
