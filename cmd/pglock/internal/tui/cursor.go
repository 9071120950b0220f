package tui

import "slices"

// cursor is the selected row and the first row on the screen.
type cursor struct {
	at, first int
	// chosen is the row that the user moved to. It stays selected when it moves. It is nil at first: then the row of whom the best
	// action is about is selected, or else the top row, whichever that is.
	chosen *rowID
}

// move selects another row.
func (c cursor) move(by int, rows []row) cursor {
	c.at = clamp(c.at+by, len(rows))
	if len(rows) > 0 {
		id := rows[c.at].id()
		c.chosen = &id
	}
	return c
}

// find moves the cursor to the chosen row. If that row is gone, the cursor stays where it is.
func (c cursor) find(rows []row, best rowID) cursor {
	if c.chosen == nil {
		return cursor{at: max(0, slices.IndexFunc(rows, func(r row) bool { return r.id() == best }))}
	}
	if at := slices.IndexFunc(rows, func(r row) bool { return r.id() == *c.chosen }); at >= 0 {
		c.at = at
	}
	c.at = clamp(c.at, len(rows))
	return c
}

// scroll moves the visible part, which has height rows, as little as possible to contain the cursor.
func (c cursor) scroll(rows, height int) cursor {
	c.first = min(c.first, c.at, max(0, rows-height))
	c.first = max(c.first, c.at-height+1)
	return c
}

func clamp(at, length int) int { return max(0, min(at, length-1)) }
