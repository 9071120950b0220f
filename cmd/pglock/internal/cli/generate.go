package cli

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/internal/lockgen"
)

// generation holds the flags of pglock generate.
type generation struct {
	options lockgen.Options
	out     string
	check   bool
}

func newGenerate() *cobra.Command {
	g := generation{options: lockgen.Options{Texts: true, Generator: "pglock generate"}}
	cmd := &cobra.Command{
		Use:   "generate FILE…",
		Short: "Generate a Go package of typed keys and locked queries from SQL",
		Long: `Generate a Go package from the comments in SQL files: a typed function for each
key, and transactions in which queries take their locks. sqlc users have the
plugin sqlc-gen-pglock instead, which writes the same package.

A file declares keys, and may have queries with parameters $1, $2 and so on:

  -- pglock: key invoice:{id bigint} owner=billing -- one invoice

  -- name: PayInvoice :exec
  -- pglock: lock invoice:{id=$1} max_wait=2s
  UPDATE invoices SET paid = true WHERE id = $1;

The types of parameters are bigint, integer, smallint, text, uuid, boolean and
timestamptz. In Go, locks.Invoice(42) is the key, and
locks.Tx(tx).Exec(ctx, locks.PayInvoiceSQL, 42) takes the lock and runs the
query in one round trip. Besides the Go code it writes SQL functions (locks.sql)
and the file that pglock monitor --names reads (names.txt).

With --check it writes nothing, and fails if a file differs from its output.`,
		Example: `  //go:generate pglock generate --out locks locks.sql
  pglock generate --out locks locks.sql
  pglock generate --out locks --check locks.sql`,
		Args: arguments(1, -1, "at least one FILE"),
		RunE: g.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&g.out, "out", "locks", "write the package to `DIR`")
	flags.StringVar(&g.options.Package, "package", "", "the `name` of the package (default the last part of DIR)")
	flags.StringVar(&g.options.SQLPackage, "sql-package", lockgen.PGX, "`driver` of the transactions: pgx/v5 or database/sql")
	flags.StringVar(&g.options.SQLSchema, "sql-schema", "", "`schema` of the SQL functions (default the package's name)")
	flags.BoolVar(&g.options.RequireKeys, "require-keys", false, "refuse locks whose keys no line declares")
	flags.BoolVar(&g.check, "check", false, "write nothing; fail if the package is not up to date")
	return cmd
}

func (g *generation) run(cmd *cobra.Command, args []string) error {
	if g.options.Package == "" {
		absolute, err := filepath.Abs(g.out)
		if err != nil {
			return err
		}
		g.options.Package = filepath.Base(absolute)
	}
	input := lockgen.Input{Options: g.options}
	var problems error
	for _, path := range args {
		text, err := os.ReadFile(path)
		if err != nil {
			return misuse(cmd, "%w", err)
		}
		problems = errors.Join(problems, input.ReadAnnotated(path, string(text)))
	}
	// A package that cannot be read is one that is not there, for this purpose; writing will say why. Keys may be missing
	// because a statement is wrong.
	if text, err := os.ReadFile(filepath.Join(g.out, lockgen.TemplatesFile)); err == nil && problems == nil {
		input.Previous = lockgen.File{Name: filepath.Join(g.out, lockgen.TemplatesFile), Contents: text}
	}
	files, err := lockgen.Generate(input)
	if err := errors.Join(problems, err); err != nil {
		return err
	}
	if g.check {
		return g.compare(files)
	}
	return g.write(files)
}

// compare reports the files that are not up to date.
func (g *generation) compare(files []lockgen.File) error {
	var stale []string
	for _, file := range files {
		path := filepath.Join(g.out, file.Name)
		if text, err := os.ReadFile(path); err != nil || !bytes.Equal(text, file.Contents) {
			stale = append(stale, path)
		}
	}
	if len(stale) > 0 {
		return fmt.Errorf("not up to date: %s (run pglock generate without --check)", strings.Join(stale, ", "))
	}
	return nil
}

// checkFolder refuses a folder with code of another package, which would no longer compile, or with code that would be
// overwritten although it was not generated.
func (g *generation) checkFolder(files []lockgen.File) error {
	paths, err := filepath.Glob(filepath.Join(g.out, "*.go"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		code, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			continue // it says no package, and the compiler will say why
		}
		written := slices.ContainsFunc(files, func(f lockgen.File) bool { return f.Name == filepath.Base(path) })
		switch {
		case written && !ast.IsGenerated(code):
			return fmt.Errorf("%s would be overwritten, and was not generated: choose another --out", path)
		case !written && strings.TrimSuffix(code.Name.Name, "_test") != g.options.Package:
			return fmt.Errorf("%s belongs to package %s, and the generated code to package %s: choose another --out, or --package %[2]s",
				path, code.Name.Name, g.options.Package)
		}
	}
	return nil
}

func (g *generation) write(files []lockgen.File) error {
	if err := g.checkFolder(files); err != nil {
		return err
	}
	if err := os.MkdirAll(g.out, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		if err := os.WriteFile(filepath.Join(g.out, file.Name), file.Contents, 0o644); err != nil {
			return err
		}
	}
	return nil
}
