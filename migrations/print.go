package migrations

import (
	"fmt"
	"io"
)

// Print writes the schema as one file for another tool, which must run it in one transaction. Format "plain" is SQL
// for psql --single-transaction, golang-migrate, Atlas, tern and others, and "down" is the way back for these.
// "goose" and "dbmate" have both ways in one file, with the annotations of these tools. Afterwards [Up] has nothing
// to do.
func Print(w io.Writer, format string) error {
	up, err := FS.ReadFile(upFile)
	if err != nil {
		return fmt.Errorf("migrations: print: %w", err)
	}
	down, err := FS.ReadFile(downFile)
	if err != nil {
		return fmt.Errorf("migrations: print: %w", err)
	}
	text, ok := formats[format]
	if !ok {
		return fmt.Errorf("migrations: print: unknown format %q: it is plain, down, goose or dbmate", format)
	}
	if _, err := fmt.Fprintf(w, text, up, down); err != nil {
		return fmt.Errorf("migrations: print: %w", err)
	}
	return nil
}

// formats are made of the way up and the way back. goose does not split what is in one statement at semicolons.
var formats = map[string]string{
	"plain":  "%[1]s",
	"down":   "%[2]s",
	"goose":  "-- +goose Up\n" + begin + "%[1]s" + end + "\n-- +goose Down\n" + begin + "%[2]s" + end,
	"dbmate": "-- migrate:up\n%[1]s\n-- migrate:down\n%[2]s",
}

const begin, end = "-- +goose StatementBegin\n", "-- +goose StatementEnd\n"
