package migrations

import (
	"embed"
	"io"
)

// FS holds the migrations as golang-migrate names them: NNNNNN_name.up.sql and NNNNNN_name.down.sql, numbered from 1
// without gaps. Each is plain SQL for one transaction, and records the version that it leads to.
//
//go:embed *.sql
var FS embed.FS

// latest is the number of the last migration.
const latest = 15

// Latest returns the version that [Up] leads to.
func Latest() uint { return latest }

// Print writes all up migrations, in order, as plain SQL that must run in one transaction, for example with psql
// --single-transaction. Afterwards [Up] has nothing to do. The error is that of w.
func Print(w io.Writer) error { return PrintFile(w, File{}) }
