package view

import (
	"fmt"
	"io"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
)

// EventText returns an event as a printable line, with the time in its zone.
func EventText(e journal.Event) string {
	return e.At.Format("15:04:05") + "  " + Printable(e.String())
}

// EventLines writes each event as a line of text, with the date and the time zone.
func EventLines(w io.Writer, events []journal.Event) error {
	for _, e := range events {
		line := e.At.Format("2006-01-02 15:04:05.000Z07:00") + "  " + Printable(e.String())
		if _, err := fmt.Fprintln(w, ForTerminal(line)); err != nil {
			return err
		}
	}
	return nil
}

// EventsNDJSON writes each event as JSON on one line.
func EventsNDJSON(w io.Writer, events []journal.Event) error {
	for _, e := range events {
		if err := encodeJSON(w, e, ""); err != nil {
			return err
		}
	}
	return nil
}
