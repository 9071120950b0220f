package cli

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/recording"
	sums "github.com/pglock-toolkit/pglock/cmd/pglock/internal/report"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/serverlog"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

const reportHelp = `Sum up the waits in recordings of "pglock monitor --record": for each key, how
many there were, how long they took, and which sessions held it and waited. Give
the files of one server, the oldest first.

A wait shorter than the recording's interval can be missing, and the interval
limits how exactly its end is known. With log_lock_waits the server logs
waits longer than deadlock_timeout: --log FILE adds them, with exact times.
The log is csvlog (*.csv), jsonlog (*.json), or else lines that begin with
--log-line-prefix, the server's log_line_prefix. It must be in English: a log
without a severity in English is an error.

Any role can write to the log (RAISE). A message about a wait counts if the rest
of its line fits: severity, process, context, and a session that is as old as
the wait. Lines that do not, and those that cannot be read, are skipped and
counted. log_line_prefix should contain %p and %s, or %c: without the session's
start, waits are cut at the first line of the log. 20,000 waits are read.

HELD BY sums up how long sessions waited while a session of that application
held the key. Of a wait that only the log has these are the holders that it
names (DETAIL), by the application that the recording knows their process by.`

type reportFlags struct {
	since    seconds
	output   format
	logs     []string
	prefix   string
	timezone string
	large    bool
}

func newReport() *cobra.Command {
	s := &reportFlags{}
	cmd := &cobra.Command{
		Use:   "report FILE...",
		Short: "Sum up the waits in a recording",
		Long:  reportHelp,
		Example: `  pglock report --since 1h locks.rec
  pglock report locks.rec --log postgresql.csv
  pglock report locks.rec --log postgresql.log --log-line-prefix '%m [%p] '`,
		Args: arguments(1, -1, "the FILE of a recording"),
		RunE: s.command,
	}
	flags := cmd.Flags()
	flags.Var(&s.since, "since", "sum up the last `duration` of the recording (default all)")
	s.output = formatTable
	flags.VarP(formatChoice{&s.output, []format{formatTable, formatJSON}}, "output", "o", "how to print: `table|json`")
	complete(cmd, "output", string(formatTable), string(formatJSON))
	flags.StringArrayVar(&s.logs, "log", nil, "add the waits in this `FILE` of the server's log")
	flags.StringVar(&s.prefix, "log-line-prefix", "%m [%p] ", "the server's log_line_prefix, a `PREFIX`")
	flags.StringVar(&s.timezone, "log-timezone", "", "the server's log_timezone, a `ZONE` such as Europe/Paris")
	addLarge(cmd, &s.large)
	return cmd
}

func (s *reportFlags) command(cmd *cobra.Command, args []string) error {
	var zone *time.Location
	if s.timezone != "" {
		var err error
		if zone, err = time.LoadLocation(s.timezone); err != nil {
			return misuse(cmd, "--log-timezone: %w", err)
		}
	}
	past, err := s.open(args)
	if err != nil {
		return &exit{codeOther, err}
	}
	defer closeRecording(past)
	sayDamage(past)
	var logged []serverlog.Wait
	for _, name := range s.logs {
		log, err := s.read(name, zone)
		if err != nil {
			return &exit{codeOther, fmt.Errorf("the server's log %s: %w", name, err)}
		}
		if skipped := log.Skipped.String(); skipped != "" {
			say(os.Stderr, "the server's log %s: %s", name, skipped)
		}
		logged = append(logged, log.Waits...)
	}
	first, last, _ := past.Bounds()
	if s.since > 0 {
		first = last.Add(-time.Duration(s.since))
	}
	r, err := sums.Of(past, first, last, logged)
	if err != nil {
		return unreadable(err)
	}
	if s.output == formatJSON {
		return view.Indented(os.Stdout, r)
	}
	return sums.Text(os.Stdout, r)
}

// open opens the given files, and the rotated files if there is only one.
func (s *reportFlags) open(args []string) (*recording.Past, error) {
	if len(args) > 1 {
		return openFiles(s.large, args...)
	}
	return openRotated(args[0], s.large)
}

func (s *reportFlags) read(name string, zone *time.Location) (log serverlog.Log, err error) {
	file, err := os.Open(name)
	if err != nil {
		return log, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return serverlog.Read(file, serverlog.FormatOf(name), s.prefix, zone)
}
