package cli

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func newVet() *cobra.Command {
	return &cobra.Command{
		Use:   "vet [PACKAGE…]",
		Short: "Find mistakes with locks in Go programs",
		Long: `Find mistakes with locks in Go packages (default ./...):

  pglockignored  the error of a lock, a guard or a fence is ignored
  pglockunlock   a lock is dropped, or not unlocked on some path
  pglockcontext  work under a lock runs in a context that does not end with it
  pglockguard    a transaction writes before GuardTx
  pglockloop     LockTx or Lock in a loop, where LockAllTx or LockAll is meant
  pglocktx       a transaction lock is taken outside of a transaction
  pglockoption   an option that the call refuses, such as MaxWait for TryLock
  pglockraw      pg_advisory_lock and its like by hand, in Go and .sql files
  pglockplain    a sqlc query with a lock runs on a plain transaction or pool
  pglockkey      a key made by hand where a generated one exists

A comment //pglock:allow (-- pglock: allow in SQL) on the line or the one above
keeps a mistake from being reported, at the top of a file all in it.
docs/vet.md explains each.

It runs "go vet" with this program as its -vettool, which takes flags such as
-pglockraw=false. Files of SQL are read by this command only.

The exit code is 1 if something was found, as go vet's.`,
		Example: `  pglock vet
  go vet -vettool=$(which pglock) ./...`,
		RunE: func(_ *cobra.Command, args []string) error { return vet(args) },
	}
}

// isVetTool reports whether go vet has started the program as its -vettool: to ask for its version or its flags, or to
// analyze the package that a file describes.
func isVetTool(args []string) bool {
	if len(args) == 0 {
		return false
	}
	last := args[len(args)-1]
	isNoFlag := func(arg string) bool { return !strings.HasPrefix(arg, "-") }
	return last == "-V=full" || last == "-flags" ||
		strings.HasSuffix(last, ".cfg") && !slices.ContainsFunc(args[:len(args)-1], isNoFlag)
}

func vet(packages []string) error {
	tool, err := os.Executable()
	if err != nil {
		return err
	}
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	cmd := exec.Command("go", append([]string{"vet", "-vettool=" + tool}, packages...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	ended := (*exec.ExitError)(nil)
	if err != nil && !errors.As(err, &ended) {
		return err
	}
	found, err := vetSQL(os.Stderr, packages)
	if err == nil && (found > 0 || ended != nil) {
		return &exit{code: codeOther} // go vet has said why
	}
	return err
}
