package cli

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	sums "github.com/pglock-toolkit/pglock/cmd/pglock/internal/report"
	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
)

const reportHelp = `For each lock it says how many waits there were, how long they took, and which
sessions blocked and waited. Give the files of one server, the oldest first.

A wait shorter than the recording's interval can be missing, and the interval
limits how exactly its end is known. The server itself logs long waits
(log_lock_waits).

"blocked by" sums up how long sessions waited for one of that application, which
held the lock or was ahead in the queue; "at the root" is who waited for none.`

type reportFlags struct {
	since  seconds
	output format
}

func newReport() *cobra.Command {
	s := &reportFlags{}
	cmd := &cobra.Command{
		Use:   "report FILE...",
		Short: "Sum up the waits in a recording",
		Long:  reportHelp,
		Example: `  pglock report --since 1h locks.rec
  pglock report -o json locks.rec | jq '.keys[0]'`,
		Args: arguments(1, -1, "the FILE of a recording"),
		RunE: s.command,
	}
	flags := cmd.Flags()
	flags.Var(&s.since, "since", "sum up the last `duration` of the recording (default all)")
	s.output.addTo(cmd, formatText, formatJSON)
	return cmd
}

func (s *reportFlags) command(cmd *cobra.Command, args []string) error {
	past, err := openRecording(args...)
	if err != nil {
		return &exit{codeOther, err}
	}
	defer sayDamage(past)
	first, last, _ := past.Bounds()
	if s.since > 0 {
		first = last.Add(-time.Duration(s.since))
	}
	r, err := sums.Of(past, first, last)
	if err != nil {
		return &exit{codeOther, err}
	}
	if s.output == formatJSON {
		return view.Indented(os.Stdout, r)
	}
	return sums.Text(os.Stdout, r)
}
