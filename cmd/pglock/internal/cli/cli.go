// Package cli is the pglock command: its subcommands, flags, help texts and exit codes. A subcommand parses its
// arguments, connects, and calls the package that does the work. Its results go to standard output, and everything
// else to standard error.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

func newRoot() *cobra.Command {
	root := group(&cobra.Command{
		Use:   "pglock",
		Short: "PostgreSQL advisory locks: take them, see them, name them",
		Long: `pglock runs commands under PostgreSQL advisory locks, and shows who holds such
locks and who waits.

Locks are named by a KEY:

  invoice:42     a name, as in pglock.NewKey("invoice:42") and in SQL
                 pglock.key('invoice:42')
  @42            the lock that SQL knows as pg_advisory_lock(42)
  @7/-42         the lock that SQL knows as pg_advisory_lock(7, -42)
  @@home         the name "@home"

The server is given by --dsn, by DATABASE_URL, or as for psql: by PGHOST and the
other variables, PGSERVICE and ~/.pgpass.

Exit codes: 64 wrong usage; 65 schema pglock belongs to an untrusted role, or is
not pglock's; 66 no such session; 69 no database, or one that cannot keep locks;
70 the lock was lost; 75 another session holds the lock; 77 the role may not do
that; 78 doctor found something; 126 the command cannot be executed; 127 it was
not found; 128+n ended by signal n; 1 other errors.`,
		Example: `  pglock run nightly-report -- ./report.sh
  pglock monitor`,
		Version: moduleVersion(),
	})
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages ", ".FlagUsagesWrapped 80 "))
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if err.Error() == "flag needs an argument: 'h' in -h" { // without an argument it shows the help, unlike in psql
			return errors.Join(cmd.Help(), &exit{})
		}
		return misuse(cmd, "%w", err)
	})
	root.AddCommand(newRun(), newMonitor(), newReplay(), newReport(), newExporter(), newCancel(), newTerminate(), newDoctor(),
		newKey(), newMigrate(), newVersion())
	refuseUnknown(root)
	completeNoFiles(root)
	return root
}

// completeNoFiles makes shells complete arguments and values of flags to files only where a command says that they are files.
func completeNoFiles(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if _, known := cmd.GetFlagCompletionFunc(flag.Name); !known && flag.Annotations == nil {
			complete(cmd, flag.Name)
		}
	})
	for _, sub := range cmd.Commands() {
		completeNoFiles(sub)
	}
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
