package tui

import (
	"time"

	"charm.land/lipgloss/v2"
)

// styles use the terminal's own sixteen colours, or none if NO_COLOR is set. Of these only red and magenta can be read on
// black and on white. The text alone says everything that colours say.
type styles struct {
	title, dim, alert, root, late, tooLate, key lipgloss.Style
}

func newStyles() styles {
	plain := lipgloss.NewStyle()
	return styles{
		title:   plain.Reverse(true),
		dim:     plain.Faint(true),
		alert:   plain.Bold(true).Foreground(lipgloss.Red),
		root:    plain.Bold(true).Foreground(lipgloss.Red),
		late:    plain.Foreground(lipgloss.Magenta),
		tooLate: plain.Foreground(lipgloss.Red),
		key:     plain.Bold(true),
	}
}

// selected returns the style of a selected row. A red one stays red: white on it can be read on every terminal.
func (s styles) selected(row lipgloss.Style) lipgloss.Style {
	if row.GetForeground() == lipgloss.Red {
		row = row.Background(lipgloss.BrightWhite)
	}
	return row.Reverse(true)
}

// ofWait returns the style of the length of a wait.
func (s styles) ofWait(wait time.Duration) lipgloss.Style {
	switch {
	case wait >= time.Minute:
		return s.tooLate
	case wait >= 10*time.Second:
		return s.late
	}
	return lipgloss.NewStyle()
}
