package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/doctor"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

const doctorHelp = `It changes nothing, needs no rights, and says for each finding why it matters
and what to do, with the statement that does it. Incidents come first: waits, a
full lock table, prepared transactions, late leases; then what locks cannot rely
on: a proxy, a standby, a server that only pretends to lock, schema pglock.

With --app it also checks what the role and the database need to take locks: use
those of your program. These are timeouts, isolation level, keepalives, rights
and room for connections.

Findings are problems (locks cannot be relied on, or are about to fail),
warnings (something works worse than it could, or breaks in some uses), and
notes. The JSON has all, also what is ok; names of checks and fields do not
change within a version. --ignore CHECK leaves out the findings of a check, such
as proxy where PgBouncer pools sessions; they do not count for the exit code.

Exit codes: 0 no finding is as bad as --fail-on; 78 one is; 69 no database;
64 wrong usage; 1 other errors.`

// doctorRun is one call of doctor.
type doctorRun struct {
	dsn     *dsn
	output  format
	failOn  level
	ignore  []string
	app     bool
	verbose bool
}

func newDoctor(server *dsn) *cobra.Command {
	e := doctorRun{dsn: server, failOn: level(doctor.Warning)}
	cmd := &cobra.Command{
		Use:   "doctor [DATABASE]",
		Short: "Check a server for what endangers locks, and how to mend it",
		Long:  doctorHelp,
		Example: `  pglock doctor
  pglock doctor --app -d postgres://app@db1/shop
  pglock doctor --ignore proxy -o json | jq -r '.findings[].sql[]'`,
		Args: arguments(0, 1, "one database"),
		RunE: e.command,
	}
	e.output.addTo(cmd, formatText, formatJSON)
	flags := cmd.Flags()
	flags.Var(&e.failOn, "fail-on", "fail if a finding is at least this bad: `note|warning|problem`")
	flags.BoolVar(&e.app, "app", false, "check also what an application needs that takes locks")
	flags.BoolVarP(&e.verbose, "verbose", "v", false, "print also what is ok")
	complete(cmd, "fail-on", failLevels...)
	flags.StringArrayVar(&e.ignore, "ignore", nil, "leave out the findings of this `CHECK`; may be repeated")
	complete(cmd, "ignore", doctor.Checks...)
	return cmd
}

// level is the value of --fail-on.
type level doctor.Level

var failLevels = []string{string(doctor.Note), string(doctor.Warning), string(doctor.Problem)}

func (l *level) Set(text string) error {
	if !slices.Contains(failLevels, text) {
		return fmt.Errorf("must be one of %s", strings.Join(failLevels, ", "))
	}
	*l = level(text)
	return nil
}

func (l *level) String() string { return string(*l) }
func (l *level) Type() string   { return "level" }

func (e *doctorRun) command(cmd *cobra.Command, args []string) error {
	for _, name := range e.ignore {
		if !slices.Contains(doctor.Checks, name) {
			return misuse(cmd, "--ignore: there is no check %q; the checks are %s", name, strings.Join(doctor.Checks, ", "))
		}
	}
	return e.dsn.withPool(cmd, args, "pglock doctor", func(ctx context.Context, db database, pool *pgxpool.Pool) error {
		report, err := inTime(ctx, func(ctx context.Context) (*doctor.Report, error) {
			return doctor.Examine(ctx, pool, doctor.Options{App: e.app, Trusted: db.trusted, Ignore: e.ignore, Server: db.flags})
		})
		if err != nil {
			return db.failed(err)
		}
		if err := e.print(os.Stdout, db, report); err != nil {
			return err
		}
		if report.Worst.AtLeast(doctor.Level(e.failOn)) {
			return &exit{code: codeUnfit}
		}
		return nil
	})
}

func (e *doctorRun) print(w io.Writer, db database, r *doctor.Report) error {
	switch e.output {
	case formatText:
		_, err := io.WriteString(w, lines(e.reportLines(db.target, r, width())))
		return err
	case formatJSON:
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(r)
	}
	return errors.New("findings cannot be printed as " + string(e.output))
}

// reportLines formats a report as text. Each statement has its own line, unwrapped, so that it can be copied.
func (e *doctorRun) reportLines(target string, r *doctor.Report, width int) []string {
	version, _, _ := strings.Cut(r.ServerVersion, " ") // packagers append their own version
	all := []string{fmt.Sprintf("%s  PostgreSQL %s  role %s", view.Printable(target), view.Printable(version),
		view.Printable(r.Role)), ""}
	isFinding := func(f doctor.Finding) bool { return f.What == r.Headline }
	if r.Headline != "" && !slices.ContainsFunc(r.Findings, isFinding) {
		all = append(all, view.Wrap(view.Printable(r.Headline), width, "  ")...)
		if r.End != "" {
			all = append(all, "  "+r.End)
		}
		all = append(all, "")
	}
	counts := map[doctor.Level]int{}
	for _, f := range r.Findings {
		if counts[f.Level]++; f.Level == doctor.OK && !e.verbose {
			continue
		}
		all = append(all, hanging(string(f.Level), f.What, width)...)
		all = append(all, hanging("  why", f.Why, width)...)
		all = append(all, hanging("  do", f.Do, width)...)
		for _, statement := range f.SQL {
			all = append(all, strings.Repeat(" ", hang)+view.Printable(statement)+";")
		}
	}
	if all[len(all)-1] != "" {
		all = append(all, "")
	}
	return append(all, summary(counts))
}

// hang is the indentation of a text after its label.
const hang = 9

// hanging returns a text after a label, or nil if there is no text.
func hanging(label, text string, width int) []string {
	if text == "" {
		return nil
	}
	var all []string
	for _, line := range view.Wrap(view.Printable(text), width-hang, "") {
		all = append(all, fmt.Sprintf("%-*s%s", hang, label, line))
		label = ""
	}
	return all
}

func summary(counts map[doctor.Level]int) string {
	var parts []string
	for _, l := range slices.Backward(doctor.Levels) {
		if n := counts[l]; n == 1 || l == doctor.OK {
			parts = append(parts, fmt.Sprintf("%d %s", n, l))
		} else if n > 1 {
			parts = append(parts, fmt.Sprintf("%d %ss", n, l))
		}
	}
	return strings.Join(parts, ", ")
}
