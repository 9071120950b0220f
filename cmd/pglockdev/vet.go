package main

import (
	"flag"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

const vetHelp = `Usage: pglockdev vet [PACKAGE…]

Find mistakes with locks in Go packages (default ./...):

  pglockignored  the error of a lock or a guard is ignored
  pglockunlock   a lock is dropped, or not unlocked on some path
  pglockcontext  work under a lock runs in a context that does not end with it
  pglockguard    a transaction writes before GuardTx
  pglockplain    a sqlc query with a lock runs on a plain transaction or pool

A comment //pglock:allow on the line or the one above keeps a mistake from being
reported. docs/testing.md explains each.

It runs "go vet" with this program as its -vettool, which one can do oneself:

  go vet -vettool=$(which pglockdev) ./...
`

// vet runs go vet with this program as its tool.
func vet(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("vet", flag.ContinueOnError)
	if err := parse(flags, vetHelp, args, stdout, stderr); err != nil {
		return err
	}
	packages := flags.Args()
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	tool, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command("go", append([]string{"vet", "-vettool=" + tool}, packages...)...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err = cmd.Run()
	if _, failed := err.(*exec.ExitError); failed {
		return exit(1) // go vet has said why
	}
	return err
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
