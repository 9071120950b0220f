// Package cli is the pglock command: its subcommands, flags, help texts and exit codes. A subcommand parses its
// arguments, connects, and calls the package that does the work. Its results go to standard output, and everything
// else to standard error.
package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/job"
)

// Main runs the command with the arguments that follow its name, and returns its exit code. Errors have been printed.
func Main(args []string) int {
	if len(args) > 0 && args[0] == job.GuardArgument {
		return job.Guard(args[1:])
	}
	root := newRoot()
	root.SetArgs(args)
	return report(os.Stderr, root.ExecuteContext(context.Background()))
}

// Command returns the command with its subcommands, to generate manual pages and completions.
func Command() *cobra.Command { return newRoot() }

const rootHelp = `PostgreSQL locks: who holds which, who waits, and what to do about it.

Usage: pglock [COMMAND] [FLAGS], for example: pglock -d postgres://db1/shop

  monitor    the locks of a server: a view, or text or JSON (the default)
  check      one line and an exit code, for Nagios and the like
  watch      events as they happen: printed, for a command, and recorded
  serve      a page for browsers, and metrics for Prometheus
  replay     a recording, in the view; report: the sum of its waits
  report     FILE…
  terminate  end a session, after a preview; cancel: only its statement
  cancel     PID
  doctor     what endangers locks on a server, and what mends it
  run        a command under a lock, as flock(1) does with a file
  key        the number of a named lock, and the SQL that takes it
  migrate    install schema pglock, for names, fencing and locks in rows
  help       COMMAND; version; completion bash|zsh|fish|powershell

  -d, --dsn URL           the database: a URL, keyword=value pairs or a name
                          (default $DATABASE_URL, or what psql uses)
      --trust-owner ROLE  use schema pglock also if this role owns it: its
                          code may run with your rights
`

// help is the template of the help of a command: examples come before explanations.
const help = `{{if not .HasParent}}{{.Long}}{{else}}{{.Short}}.

Usage: {{.UseLine}}
{{if .HasExample}}
{{.Example}}
{{end}}{{with .Long}}
{{.}}
{{end}}{{if .HasAvailableSubCommands}}
{{range .Commands}}{{if .IsAvailableCommand}}  {{rpad .Name .NamePadding}} {{.Short}}
{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}
{{.LocalFlags.FlagUsagesWrapped 80 | trimTrailingWhitespaces}}
{{end}}{{end}}`

func newRoot() *cobra.Command {
	var server dsn
	monitor := newMonitor(&server)
	root := group(&cobra.Command{
		Use:     "pglock",
		Short:   "PostgreSQL locks: who holds which, who waits, and what to do about it",
		Long:    rootHelp,
		Example: "  pglock -d postgres://db1/shop\n  pglock run nightly-report -- ./report.sh",
		Version: moduleVersion(),
	})
	root.Flags().AddFlagSet(monitor.Flags())
	root.RunE = func(cmd *cobra.Command, _ []string) error { return monitor.RunE(cmd, nil) }
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetHelpTemplate(help)
	root.SetUsageTemplate(help)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return misuse(cmd, "%w", err) })
	server.addTo(root.PersistentFlags())
	root.AddCommand(monitor, newCheck(&server), newWatch(&server), newServe(&server), newReplay(), newReport(), newTerminate(&server),
		newCancel(&server), newDoctor(&server), newRun(&server), newKey(), newMigrate(&server), newVersion())
	refuseUnknown(root)
	return root
}

// refuseUnknown makes cobra's own commands fail for an unknown argument. By default they print the help and succeed.
func refuseUnknown(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			group(cmd)
		case "help":
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				if _, rest, err := root.Find(args); err != nil || len(rest) > 0 {
					return misuse(root, "unknown command %q", strings.Join(args, " "))
				}
				return nil
			}
		}
	}
}

// group makes a command that only has subcommands refuse unknown ones. Cobra does so only for the
// root.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		hint := ""
		if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
			hint = fmt.Sprintf(", did you mean %s?", similar[0])
		}
		return misuse(cmd, "unknown command %q%s", args[0], hint)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// arguments checks the number of arguments, and says what is expected.
func arguments(least, most int, expected string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || (most >= 0 && len(args) > most) {
			return misuse(cmd, "expected %s", expected)
		}
		return nil
	}
}

var noArguments = arguments(0, 0, "no arguments")
