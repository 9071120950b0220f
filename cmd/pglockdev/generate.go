package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"

	"github.com/pglock-toolkit/pglock/internal/lockgen"
)

const generateHelp = `Usage: pglockdev generate [--out DIR] [--package NAME] [--check] FILE…

Generate a Go package from the comments in SQL files: a typed function for each
key, and transactions in which queries take their locks. sqlc users have the
plugin sqlc-gen-pglock instead, which writes the same package.

A file declares keys, and may have queries with parameters $1, $2 and so on:

  -- pglock: key invoice:{id bigint} -- one invoice

  -- name: PayInvoice :exec
  -- pglock: lock invoice:{id=$1} max_wait=2s
  UPDATE invoices SET paid = true WHERE id = $1;

In Go, locks.Invoice(42) is the key, and
locks.Tx(tx).Exec(ctx, locks.PayInvoiceSQL, 42) takes the lock and runs the
query in one round trip.
`

// generate writes the package of SQL files.
func generate(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("generate", flag.ContinueOnError)
	out := flags.String("out", "locks", "write the package to `DIR`")
	name := flags.String("package", "", "the `NAME` of the package (default the last part of DIR)")
	check := flags.Bool("check", false, "write nothing; fail if the package is not up to date")
	if err := parse(flags, generateHelp, args, stdout, stderr); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return exit(2)
	}
	if *name == "" {
		absolute, err := filepath.Abs(*out)
		if err != nil {
			return err
		}
		*name = filepath.Base(absolute)
	}
	code, err := generated(*name, flags.Args())
	if err != nil {
		return err
	}
	path := filepath.Join(*out, lockgen.FileName)
	if *check {
		if before, err := os.ReadFile(path); err != nil || !bytes.Equal(bytes.ReplaceAll(before, []byte("\r\n"), []byte("\n")), code) {
			return fmt.Errorf("%s is not up to date: run pglockdev generate without --check", path)
		}
		return nil
	}
	if err := checkOverwritten(path); err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(*out, 0o755), os.WriteFile(path, code, 0o644))
}

func generated(name string, files []string) ([]byte, error) {
	input := lockgen.Input{Package: name, Generator: "pglockdev generate", Texts: true}
	var problems []error
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		problems = append(problems, input.Read(path, string(text)))
	}
	code, err := lockgen.Generate(input)
	return code, errors.Join(append(problems, err)...)
}

// checkOverwritten refuses to overwrite code that was not generated.
func checkOverwritten(path string) error {
	code, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
	if err == nil && !ast.IsGenerated(code) {
		return fmt.Errorf("%s would be overwritten, and was not generated: choose another --out", path)
	}
	return nil
}
