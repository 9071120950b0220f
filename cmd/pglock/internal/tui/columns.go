package tui

import (
	"strings"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

// column is a part of a row. Its width depends only on the terminal's, so that scrolling does not move the columns,
// and little has to be sent.
type column struct {
	title string
	width int
	// weight is its share of the columns of the terminal that are left over.
	weight int
	// from is the least width of a terminal that shows it.
	from  int
	right bool
	cell  func(Model, row) string
}

// Widths of terminals with room for optional columns. In a narrow terminal cells are cut off at the edge; the details
// show the rest.
const (
	usual = 74
	wide  = 100
	wider = 110
	// broad terminals also have room for the details of a session, and the broadest for its query.
	broad    = 130
	broader  = 160
	broadest = 180
)

// trendWidth is the least number of bars of a trend.
const trendWidth = 8

func columnsOf(page page) []column {
	switch page {
	case pageKeys:
		return []column{
			{title: "KEY", width: 18, weight: 3, cell: keyCell},
			{title: "HELD BY", width: 12, weight: 2, cell: heldByCell},
			{title: "HOLD", width: 4, right: true, cell: holdersCell},
			{title: "WAIT", width: 4, right: true, cell: waitersCell},
			{title: "LONGEST", width: 7, right: true, cell: longestCell},
			{title: "TREND", width: trendWidth, weight: 1, cell: trendCell},
			{title: "STATE", width: 24, weight: 1, from: broad, cell: ofHolder(stateCell)},
			{title: "AGE", width: 6, right: true, from: broader, cell: ofHolder(sessionAgeCell)},
			{title: "CLIENT", width: 15, from: broader, cell: ofHolder(clientCell)},
			{title: "QUERY", width: 20, weight: 3, from: broadest, cell: ofHolder(queryCell)},
		}
	case pageTree:
		return []column{
			{title: "SESSION", width: 22, weight: 3, cell: branchCell},
			{title: "WAITED", width: 7, right: true, cell: holdsOrWaitedCell},
			{title: "MODE", width: 6, cell: modeCell},
			{title: "KEY", width: 14, weight: 2, cell: keyOrNoneCell},
			{title: "STATE", width: 17, weight: 1, from: usual, cell: stateCell},
			{title: "USER", width: 12, from: wide, cell: userCell},
			{title: "BEHIND", width: 6, from: wide, right: true, cell: behindCell},
			{title: "BLOCKED BY", width: 10, weight: 1, from: wider, cell: blockersCell},
			{title: "AGE", width: 6, right: true, from: broad, cell: sessionAgeCell},
			{title: "DATABASE", width: 10, from: broader, cell: databaseCell},
			{title: "CLIENT", width: 15, from: broader, cell: clientCell},
			{title: "QUERY", width: 16, weight: 3, from: broad, cell: queryCell},
		}
	}
	return []column{
		{title: "PID", width: 7, right: true, cell: pidCell},
		{title: "USER", width: 12, from: wide, cell: userCell},
		{title: "APPLICATION", width: 12, weight: 3, cell: applicationCell},
		{title: "STATE", width: 17, weight: 1, from: usual, cell: stateCell},
		{title: "HELD", width: 6, right: true, cell: heldCell},
		{title: "BEHIND", width: 6, right: true, cell: behindCell},
		{title: "WAITED", width: 7, right: true, cell: ownWaitCell},
		{title: "WAITS FOR", width: 12, weight: 2, cell: waitsForCell},
		{title: "AGE", width: 6, right: true, from: broad, cell: sessionAgeCell},
		{title: "DATABASE", width: 10, from: broader, cell: databaseCell},
		{title: "CLIENT", width: 15, from: broader, cell: clientCell},
		{title: "QUERY", width: 16, weight: 3, from: broad, cell: queryCell},
	}
}

// marker is the width of the mark before a row.
const marker = 2

// layout sets the widths of the columns that fit a terminal.
func layout(page page, width int) []column { return share(columnsOf(page), width) }

// share gives each of the columns that fit a part of the width.
func share(all []column, width int) []column {
	var shown []column
	left, weights := width-marker+1, 0
	for _, c := range all {
		if width < c.from {
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

func line(columns []column, cell func(column) string) string {
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = view.Fit(cell(c), c.width, c.right)
	}
	return strings.Join(cells, " ")
}
