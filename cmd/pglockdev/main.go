// Command pglockdev is pglock's tool for programmers: it generates packages of typed keys and locked queries from SQL,
// and finds mistakes with locks in Go programs. docs/sqlc.md and docs/testing.md describe it.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/pglock-toolkit/pglock/cmd/pglockdev/internal/lockvet"
)

const usage = `pglockdev is pglock's tool for programmers.

  pglockdev generate [--out DIR] [--package NAME] [--check] FILE…
  pglockdev vet [PACKAGE…]

Run a command with --help to see what it does. Exit codes: 0 success; 1 an
error, or vet has found something; 2 wrong usage.
`

func main() {
	if isVetTool(os.Args[1:]) {
		unitchecker.Main(lockvet.Analyzers()...) // exits
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run runs a command, and returns its exit code.
func run(args []string, stdout, stderr io.Writer) int {
	commands := map[string]func(args []string, stdout, stderr io.Writer) error{"generate": generate, "vet": vet}
	if len(args) == 0 || commands[args[0]] == nil {
		if len(args) == 1 && (args[0] == "help" || args[0] == "-h" || args[0] == "--help") {
			_, _ = io.WriteString(stdout, usage)
			return 0
		}
		_, _ = io.WriteString(stderr, usage)
		return 2
	}
	err := commands[args[0]](args[1:], stdout, stderr)
	switch err := err.(type) {
	case nil:
		return 0
	case exit:
		return int(err)
	}
	_, _ = fmt.Fprintf(stderr, "pglockdev %s: %v\n", args[0], err)
	return 1
}

// exit is the exit code of a command that has said why.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// parse reads the flags of a command. The error of a wrong one, or of --help, has been printed.
func parse(flags *flag.FlagSet, help string, args []string, stdout, stderr io.Writer) error {
	flags.SetOutput(stderr)
	flags.Usage = func() {
		_, _ = fmt.Fprintf(flags.Output(), "%s\n", help)
		flags.PrintDefaults()
	}
	for _, arg := range args {
		if arg == "-h" || arg == "-help" || arg == "--help" {
			flags.SetOutput(stdout)
			flags.Usage()
			return exit(0)
		}
	}
	if err := flags.Parse(args); err != nil {
		return exit(2)
	}
	return nil
}
