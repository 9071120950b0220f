package tui

import "slices"

// cursor says which row is selected, and which part of the rows is on the screen.
type cursor struct {
	at, first int
	// chosen is the row that the user has moved to; it stays selected wherever it goes. At first none is chosen: the
	// cursor then stays at the top, whatever row is there.
	chosen *identity
}

// move selects another row.
func (c cursor) move(by int, rows []row) cursor {
	c.at = clamp(c.at+by, len(rows))
	if len(rows) > 0 {
		id := rows[c.at].id
		c.chosen = &id
	}
	return c
}

// find puts the cursor on the chosen row among new rows. If that row is gone the cursor stays where
// it was.
func (c cursor) find(rows []row) cursor {
	if c.chosen == nil {
		return cursor{}
	}
	if at := slices.IndexFunc(rows, func(r row) bool { return r.id == *c.chosen }); at >= 0 {
		c.at = at
	}
	c.at = clamp(c.at, len(rows))
	return c
}

// scroll moves the visible part of height rows as little as possible, so that it contains the cursor.
func (c cursor) scroll(rows, height int) cursor {
	c.first = min(c.first, c.at, max(0, rows-height))
	c.first = max(c.first, c.at-height+1)
	return c
}

func clamp(at, length int) int { return max(0, min(at, length-1)) }
