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

// printer prints one snapshot after another.
type printer interface {
	show(*monitor.Snapshot) error
	// missed reports that no snapshot could be taken.
	missed(error) error
	// close is called once, after the last snapshot.
	close() error
}

// outputState is shared by printers that write to the same output.
type outputState struct {
	servers   bool   // there are several servers
	headed    bool   // the header of CSV is written
	separator string // a blank line is due before the next table
}

func (m *watch) printer(db database, filter view.Filter, shared *outputState) printer {
	switch {
	case m.events || m.quiet:
		return newAppender(db, nil)
	case m.output == formatJSON:
		return newAppender(db, filtered(filter, view.JSON))
	case m.output == formatNDJSON:
		return newAppender(db, filtered(filter, view.NDJSON))
	case m.output == formatCSV:
		return newAppender(db, filtered(filter, shared.csvWriter()))
	}
	return newAppender(db, shared.tableWriter(filter, db, m.zoned))
}

// printers write to the same output.
func (m *watch) printers(f *serverGroup, filter view.Filter) map[*member]printer {
	shared, all := &outputState{servers: true}, map[*member]printer{}
	for _, member := range f.members {
		all[member] = m.printer(member.db, filter, shared)
	}
	return all
}

// print prints a snapshot or, with --events, the events up to it.
func (m *watch) print(p printer, filter view.Filter, s *monitor.Snapshot, events []journal.Event) error {
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
	return view.EventLines(os.Stdout, m.zonedEvents(func() []journal.Event { return events })())
}

// appender writes each snapshot after the last one.
type appender struct {
	db     database
	write  func(io.Writer, *monitor.Snapshot) error // nil if snapshots are not written
	absent bool
}

func newAppender(db database, write func(io.Writer, *monitor.Snapshot) error) *appender {
	return &appender{db: db, write: write}
}

func (a *appender) show(s *monitor.Snapshot) error {
	if a.absent {
		say(os.Stderr, "%s answers again", a.db.target)
		a.absent = false
	}
	if a.write == nil {
		return nil
	}
	return a.write(os.Stdout, s)
}

// missed reports an outage once, not at every snapshot.
func (a *appender) missed(err error) error {
	if !a.absent {
		say(os.Stderr, "%v; trying again", a.db.failed(err))
		a.absent = true
	}
	return nil
}

func (a *appender) close() error { return nil }

// filtered writes only the locks that the filter shows.
func filtered(f view.Filter, write func(io.Writer, *monitor.Snapshot) error) func(io.Writer, *monitor.Snapshot) error {
	return func(w io.Writer, s *monitor.Snapshot) error { return write(w, f.Apply(s)) }
}

func (sh *outputState) csvWriter() func(io.Writer, *monitor.Snapshot) error {
	csv := view.CSV{Printable: term.Is(os.Stdout), Servers: sh.servers}
	return func(w io.Writer, s *monitor.Snapshot) error {
		if !sh.headed {
			sh.headed = true
			if err := csv.Header(w); err != nil {
				return err
			}
		}
		return csv.Snapshot(w, s)
	}
}

func (sh *outputState) tableWriter(filter view.Filter, db database, zoned func(*monitor.Snapshot) *monitor.Snapshot) func(io.Writer, *monitor.Snapshot) error {
	target := db.target
	if sh.servers {
		target = db.named()
	}
	return func(w io.Writer, s *monitor.Snapshot) error {
		_, err := io.WriteString(w, sh.separator+lines(view.Table(zoned(s), filter, view.Server{Target: target, Flags: db.flags, Past: db.past}, tableWidth())))
		sh.separator = "\n"
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
