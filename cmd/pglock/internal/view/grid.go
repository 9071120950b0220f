package view

import (
	"fmt"
	"strings"
)

// grid aligns the rows of all locks of a table.
type grid []column

type column struct {
	name       string
	alignRight bool
	minWidth   int // 0 if the column may not be narrowed
	dropOrder  int // the order in which columns are dropped if there is no room; 0 for never
	width      int
}

// row is a holder or a waiter. The blockers are its last cell. text replaces missing cells.
type row struct {
	cells    []string
	text     string
	blockers []string
}

func newGrid() grid {
	g := grid{{}, {name: "PID", alignRight: true}, {name: "MODE"}, {name: "WAITED", alignRight: true},
		{name: "USER", minWidth: 6, dropOrder: 2}, {name: "APPLICATION", minWidth: 6, dropOrder: 3},
		{name: "CLIENT", minWidth: 6, dropOrder: 1}, {name: "STATE", minWidth: 6, dropOrder: 4},
		{name: "BLOCKED BY", minWidth: 10}}
	g.widen(g.head())
	return g
}

func (g grid) head() row {
	var r row
	for _, c := range g {
		r.cells = append(r.cells, c.name)
	}
	return r
}

func (g grid) widen(r row) {
	for i, cell := range r.cells {
		g[i].width = max(g[i].width, Columns(cell))
	}
	if last := &g[len(g)-1]; len(r.blockers) > 0 {
		last.width = max(last.width, Columns(strings.Join(r.blockers, separator)))
	}
}

const (
	indent    = "  "
	separator = " "
)

// fitInto narrows the widest columns until all fit. If that is not enough it drops columns, and returns their names.
func (g grid) fitInto(width int) (left []string) {
	for g.total() > width {
		if widest := g.widest(); widest != nil {
			widest.width--
		} else if spare := g.nextToDrop(); spare != nil {
			left = append(left, spare.name)
			*spare = column{name: spare.name, width: dropped}
		} else {
			return left
		}
	}
	return left
}

// dropped is the width of a column that is not shown.
const dropped = -1

func (g grid) total() int {
	total := len(indent) - len(separator)
	for _, c := range g {
		total += c.width + len(separator) // nothing if the column is dropped
	}
	return total
}

// nextToDrop returns the next column to drop, or nil if there is none.
func (g grid) nextToDrop() (most *column) {
	for i := range g {
		if c := &g[i]; c.dropOrder > 0 && (most == nil || c.dropOrder < most.dropOrder) {
			most = c
		}
	}
	return most
}

// widest returns the widest column that can be narrowed, or nil if there is none.
func (g grid) widest() (widest *column) {
	for i := range g {
		if c := &g[i]; c.width > c.minWidth && c.minWidth > 0 && (widest == nil || c.width > widest.width) {
			widest = c
		}
	}
	return widest
}

func (g grid) line(r row) string {
	var cells []string
	for i, cell := range r.cells {
		if g[i].width != dropped {
			cells = append(cells, Fit(cell, g[i].width, g[i].alignRight))
		}
	}
	if r.text != "" {
		cells = append(cells, r.text)
	}
	cells = append(cells, g.blockers(r))
	return indent + strings.TrimRight(strings.Join(cells, separator), " ")
}

// blockers formats the last cell.
func (g grid) blockers(r row) string { return shorten(r.blockers, g[len(g)-1].width) }

// shorten joins as many items as fit into n columns, and counts the rest.
func shorten(items []string, n int) string {
	all := strings.Join(items, separator)
	more := 0
	if last := len(items) - 1; last > 0 && strings.HasPrefix(items[last], "+") {
		_, _ = fmt.Sscanf(items[last], "+%d", &more) // Blockers wrote it
		items = items[:last]
	}
	for some := len(items) - 1; Columns(all) > n && some > 0; some-- {
		all = fmt.Sprintf("%s +%d", strings.Join(items[:some], separator), len(items)-some+more)
	}
	return Cut(all, n)
}
