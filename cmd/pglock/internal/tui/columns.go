package tui

// column is a column of the table. Its width depends only on the terminal's, so that columns stay where they are when the rows
// scroll.
type column struct {
	title string
	cell  int // among the cells of a row
	width int
	// weight is its share of the space that the columns' widths leave.
	weight int
	// minWidth is the width of the narrowest terminal that shows it.
	minWidth int
	right    bool
	waits    bool // it is coloured by the wait
}

// The terminal widths at which optional columns appear.
const (
	narrow = 50
	usual  = 74
	wide   = 110
)

var columnsOfPage = [pages][]column{
	pageKeys: {
		{title: "KEY", cell: 0, width: 18, weight: 3},
		{title: "HELD BY", cell: 1, width: 12, weight: 2, minWidth: narrow},
		{title: "MODE", cell: 2, width: 9, minWidth: wide},
		{title: "WAIT", cell: 3, width: 4, right: true},
		{title: "LONGEST", cell: 4, width: 7, right: true, waits: true},
		{title: "STATE", cell: 5, width: 16, weight: 3, minWidth: usual},
	},
	pageTree: {
		{title: "SESSION", cell: 0, width: 18, weight: 2},
		{title: "WAITED", cell: 1, width: 6, right: true, waits: true},
		{title: "MODE", cell: 2, width: 9, minWidth: narrow},
		{title: "LOCK", cell: 3, width: 12, weight: 2},
		{title: "BEHIND", cell: 5, width: 6, minWidth: wide, right: true},
		{title: "USER", cell: 6, width: 12, minWidth: wide},
		{title: "DOING", cell: 4, width: 16, weight: 2, minWidth: usual},
	},
}

// marker is the width of the marks in front of a row.
const marker = 2

// columnsOf returns the columns of a page that fit a terminal. They share its width.
func columnsOf(page page, width int) (shown []column) {
	left, weights := width-marker+1, 0
	for _, c := range columnsOfPage[page] {
		if width >= c.minWidth {
			shown, left, weights = append(shown, c), left-c.width-1, weights+c.weight
		}
	}
	left = max(0, left)
	for i := range shown {
		if weights > 0 {
			share := left * shown[i].weight / weights
			shown[i].width, left, weights = shown[i].width+share, left-share, weights-shown[i].weight
		}
	}
	return shown
}
