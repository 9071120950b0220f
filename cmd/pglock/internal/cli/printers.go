package cli

import (
	"errors"
	"io"
	"os"
	"strconv"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/journal"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/term"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/monitor"
)

// printer writes one snapshot after another to standard output, and reports outages of the server.
type printer struct {
	db     database
	write  func(io.Writer, *monitor.Snapshot) error // nil if snapshots are not written
	absent bool
}

func (m *watch) printer(db database, filter view.Filter) *printer {
	p := &printer{db: db}
	switch {
	case m.events || m.quiet:
	case m.output == formatJSON:
		p.write = filtered(filter, view.JSON)
	case m.output == formatNDJSON:
		p.write = filtered(filter, view.NDJSON)
	default:
		p.write = tableWriter(filter, db)
	}
	return p
}

// print prints a snapshot or, with --events, the events up to it.
func (m *watch) print(p *printer, filter view.Filter, s *monitor.Snapshot, events []journal.Event) error {
	if m.events {
		return errors.Join(p.show(nil), m.printEvents(filter.Events(events)))
	}
	return p.show(s)
}

func (m *watch) printEvents(events []journal.Event) error {
	switch m.output {
	case formatJSON:
		return view.EventsJSON(os.Stdout, events)
	case formatNDJSON:
		return view.EventsNDJSON(os.Stdout, events)
	}
	return view.EventLines(os.Stdout, events)
}

func (p *printer) show(s *monitor.Snapshot) error {
	if p.absent {
		say(os.Stderr, "%s answers again", p.db.target)
		p.absent = false
	}
	if p.write == nil {
		return nil
	}
	return p.write(os.Stdout, s)
}

// missed reports an outage once, not at every snapshot.
func (p *printer) missed(err error) {
	if !p.absent {
		say(os.Stderr, "%v; trying again", p.db.failed(err))
		p.absent = true
	}
}

// filtered writes only the locks that the filter shows.
func filtered(f view.Filter, write func(io.Writer, *monitor.Snapshot) error) func(io.Writer, *monitor.Snapshot) error {
	return func(w io.Writer, s *monitor.Snapshot) error { return write(w, f.Apply(s)) }
}

// tableWriter writes tables with a blank line between them.
func tableWriter(filter view.Filter, db database) func(io.Writer, *monitor.Snapshot) error {
	separator := ""
	return func(w io.Writer, s *monitor.Snapshot) error {
		table := view.Table(s, filter, view.Server{Target: db.target, Flags: db.flags, Past: db.past}, tableWidth())
		_, err := io.WriteString(w, separator+lines(table))
		separator = "\n"
		return err
	}
}

// unlimited is larger than the width of any table.
const unlimited = 1 << 16

// tableWidth returns the width of the terminal, or COLUMNS. It is unlimited if the output is not a terminal.
func tableWidth() int {
	if !term.Is(os.Stdout) && os.Getenv("COLUMNS") == "" {
		return unlimited
	}
	return width()
}

// width returns the width of the terminal, or COLUMNS, or 80.
func width() int {
	if columns, _, ok := term.Size(os.Stdout); ok && columns > 0 {
		return columns
	}
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && columns > 0 {
		return columns
	}
	return 80
}
