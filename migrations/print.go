package migrations

import (
	"fmt"
	"io"
)

// Print writes the schema as one file for another tool, which must run it in one transaction. The formats are "plain",
// SQL for psql --single-transaction, golang-migrate, Atlas, tern and others; "down", the way back for these; and "goose"
// and "dbmate", which have both ways in one file, with the annotations of these tools. Afterwards [Up] has nothing to do.
func Print(w io.Writer, format string) error {
	up, err := FS.ReadFile(upFile)
	if err != nil {
		return fmt.Errorf("migrations: print: %w", err)
	}
	down, err := FS.ReadFile(downFile)
	if err != nil {
		return fmt.Errorf("migrations: print: %w", err)
	}
	switch format {
	case "plain":
		_, err = w.Write(up)
	case "down":
		_, err = w.Write(down)
	case "goose": // what is in one statement is not split at semicolons
		const begin, end = "-- +goose StatementBegin\n", "-- +goose StatementEnd\n"
		_, err = fmt.Fprintf(w, "-- +goose Up\n%s%s%s\n-- +goose Down\n%s%s%s", begin, up, end, begin, down, end)
	case "dbmate":
		_, err = fmt.Fprintf(w, "-- migrate:up\n%s\n-- migrate:down\n%s", up, down)
	default:
		err = fmt.Errorf("unknown format %q: it is plain, down, goose or dbmate", format)
	}
	if err != nil {
		return fmt.Errorf("migrations: print: %w", err)
	}
	return nil
}
