package tui

import "charm.land/lipgloss/v2"

// styles use the terminal's own sixteen colours, which suit its background, or none if NO_COLOR is set. The text alone
// says everything that colours say.
type styles struct {
	title, dim, alert, warning, selected, key lipgloss.Style
}

func newStyles() styles {
	plain := lipgloss.NewStyle()
	return styles{
		title:    plain.Reverse(true),
		dim:      plain.Faint(true),
		alert:    plain.Bold(true).Foreground(lipgloss.Red),
		warning:  plain.Foreground(lipgloss.Yellow),
		selected: plain.Reverse(true),
		key:      plain.Bold(true),
	}
}
