package tui

import (
	"cmp"
	"slices"
)

// order is a way to sort a page: by weight, the most first, or alphabetically by text.
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
	byBehind  = order{name: "sessions behind", weight: func(r row) int64 { return int64(r.behind) }}
	byHeld    = order{name: "locks held", weight: func(r row) int64 { return int64(len(r.person.held)) }}
	byPID     = order{name: "process ID", weight: func(r row) int64 { return -int64(r.person.PID) }}
)

// orders are the ways to sort each page, the usual one first.
var orders = [pages][]order{
	pageKeys:     {byWait, byWaiters, byHolders, byKey},
	pageTree:     {byBehind, byWait, byPID},
	pageSessions: {byHeld, byBehind, byWait, byPID},
}

func (q question) sortedBy() order { return orders[q.page][q.order[q.page]] }

// sorted returns items in the order that is asked for. Equal ones keep theirs.
func sorted[T any](q question, items []T, rowOf func(T) row) []T {
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
