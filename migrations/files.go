package migrations

import (
	"embed"
	"fmt"
	"io"
	"io/fs"
)

// FS holds the migrations as golang-migrate names them: NNNNNN_name.up.sql and NNNNNN_name.down.sql, numbered from 1
// without gaps. Each is plain SQL for one transaction, and records the version that it leads to.
//
//go:embed *.sql
var FS embed.FS

// latest is the number of the last migration.
const latest = 10

// Latest returns the version that [Up] leads to.
func Latest() uint { return latest }

// Print writes all up migrations, in order, as plain SQL for one transaction, such as psql --single-transaction runs.
// Afterwards [Up] has nothing to do. The error is that of w.
func Print(w io.Writer) error {
	files, err := fs.Glob(FS, "*.up.sql") // sorted by name, and so by number
	if err != nil {
		return fmt.Errorf("migrations: print: %w", err)
	}
	for _, file := range files {
		sql, err := FS.ReadFile(file)
		if err != nil {
			return fmt.Errorf("migrations: print: %w", err)
		}
		if _, err := fmt.Fprintf(w, "-- %s\n\n%s\n", file, sql); err != nil {
			return fmt.Errorf("migrations: print %s: %w", file, err)
		}
	}
	return nil
}
