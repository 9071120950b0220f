package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the versions of pglock, Go and pgx",
		Long: `Show the version of pglock, the commit it was built from, if known, the version
of Go that built it, and the version of pgx, the driver.`,
		Example: "  pglock version",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "pglock %s\ncommit %s\ngo     %s %s/%s\npgx    %s\n",
				moduleVersion(), commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH, dependencyVersion("github.com/jackc/pgx/v5"))
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}

// moduleVersion returns the version of this module. A version built from a working tree contains the commit.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	return cmp.Or(info.Main.Version, "(devel)")
}

// commit returns the commit that the command was built from. A build of a released module does not know
// it.
func commit() string {
	revision, at, changed := "", "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			switch {
			case setting.Key == "vcs.revision":
				revision = setting.Value
			case setting.Key == "vcs.time":
				at = " of " + setting.Value
			case setting.Key == "vcs.modified" && setting.Value == "true":
				changed = ", changed since"
			}
		}
	}
	if revision == "" {
		return "(unknown)"
	}
	return revision + at + changed
}

func dependencyVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == path {
				return module.Version
			}
		}
	}
	return "(unknown)"
}
