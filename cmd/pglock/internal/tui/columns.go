package tui

import (
	"time"
)

// column is a column of the table. Its width depends only on the terminal's, so that columns stay where they are when
// the rows scroll.
type column struct {
	title string
	width int
	// weight is its share of the space that the columns' widths leave.
	weight int
	// minWidth is the width of the narrowest terminal that shows it.
	minWidth   int
	alignRight bool
	cell       func(Model, row) string
	// wait returns the wait that the cell shows, by which it is coloured; nil for all other columns.
	wait func(Model, row) time.Duration
}

// The terminal widths at which optional columns appear. In a narrowish terminal the details show what is missing.
const (
	narrow    = 50
	narrowish = 60
	usual     = 74
	wide      = 100
	// From here on there is room for details of sessions.
	broad    = 130
	broader  = 160
	broadest = 180
)

// columnsOf returns the columns of a page, for a terminal of some width.
func columnsOf(page page, width int) []column {
	if page == pageKeys {
		return []column{
			{title: "KEY", width: 18, weight: 3, cell: keyCell},
			{title: "HELD BY", width: 12, weight: 2, minWidth: narrow, cell: heldByCell},
			{title: "HOLD", width: 4, alignRight: true, minWidth: narrowish, cell: holdersCell},
			{title: "WAIT", width: 4, alignRight: true, cell: waitersCell},
			{title: "LONGEST", width: 7, alignRight: true, cell: longestCell, wait: func(_ Model, r row) time.Duration { return r.longest }},
			{title: "STATE", width: 24, weight: 1, minWidth: broad, cell: ofHolder(stateCell)},
			{title: "AGE", width: 6, alignRight: true, minWidth: broader, cell: ofHolder(sessionAgeCell)},
			{title: "CLIENT", width: 15, minWidth: broader, cell: ofHolder(clientCell)},
			{title: "QUERY", width: 20, weight: 3, minWidth: broadest, cell: ofHolder(queryCell)},
		}
	}
	return []column{
		{title: "SESSION", width: treeWidth(width), weight: 1, cell: treeCell},
		{title: "WAITED", width: 7, alignRight: true, cell: holdsOrWaitedCell, wait: ownWait},
		{title: "MODE", width: modeWidth(width), minWidth: narrow, cell: modeCell},
		{title: "KEY", width: 14, weight: 3, cell: modeAndKeyCell},
		{title: "STATE", width: 17, weight: 2, minWidth: usual, cell: stateOrCodeCell},
		{title: "BEHIND", width: 6, minWidth: wide, alignRight: true, cell: behindCell},
		{title: "USER", width: 12, minWidth: wide, cell: ofOne(userCell)},
		{title: "AGE", width: 6, alignRight: true, minWidth: broad, cell: ofOne(sessionAgeCell)},
		{title: "DATABASE", width: 10, minWidth: broader, cell: databaseCell},
		{title: "CLIENT", width: 15, minWidth: broader, cell: ofOne(clientCell)},
		{title: "QUERY", width: 16, weight: 4, minWidth: broad, cell: queryCell},
	}
}

// marker is the width of the marks in front of a row.
const marker = 2

// fitColumns returns the columns that fit a terminal, with their widths.
func fitColumns(page page, width int) []column { return distribute(columnsOf(page, width), width) }

// distribute shares the width among the columns that fit.
func distribute(all []column, width int) []column {
	var shown []column
	left, weights := width-marker+1, 0
	for _, c := range all {
		if width < c.minWidth {
			continue
		}
		shown = append(shown, c)
		left, weights = left-c.width-1, weights+c.weight
	}
	left = max(0, left)
	for i := range shown {
		share := 0
		if weights > 0 {
			share = left * shown[i].weight / weights
		}
		shown[i].width += share
		left, weights = left-share, weights-shown[i].weight
	}
	return shown
}

// modeWidth returns the width of the column MODE, which has whole names only in a broad terminal.
func modeWidth(width int) int {
	if width < broader {
		return len("ShRowExcl")
	}
	return len("ShareUpdateExclusive")
}

// treeWidth returns the least width of the column SESSION. Without a column MODE, KEY needs room for both.
func treeWidth(width int) int {
	if width < narrow {
		return 15
	}
	return 22
}
