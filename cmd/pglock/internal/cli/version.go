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
		Short: "Show the versions of pglock and Go",
		Long: `Show the version of pglock, the commit it was built from, if known, and the
version of Go that built it.`,
		Example: "  pglock version",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "pglock %s\ncommit %s\ngo     %s %s/%s\n",
				moduleVersion(), commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// moduleVersion returns the version of this module. A version built from a working tree contains the commit.
func moduleVersion() string {
	info, _ := debug.ReadBuildInfo() // a program of Go's modules has it
	return cmp.Or(info.Main.Version, "(devel)")
}

// commit returns the commit that the command was built from. A build of a released module does not know it.
func commit() string {
	info, _ := debug.ReadBuildInfo()
	revision, changed := "(unknown)", ""
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			revision = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			changed = ", changed since"
		}
	}
	return revision + changed
}
