package migrations

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// Format is the form in which a tool expects its files.
type Format string

// The formats of [PrintFile].
const (
	FormatPlain  Format = "plain"  // SQL for psql --single-transaction, tern and others
	FormatGoose  Format = "goose"  // with goose's annotations
	FormatDbmate Format = "dbmate" // with dbmate's
	FormatAtlas  Format = "atlas"  // SQL for a directory of Atlas, whose sum is made afterwards with: atlas migrate hash
)

// Formats returns all formats.
func Formats() []Format { return []Format{FormatPlain, FormatGoose, FormatDbmate, FormatAtlas} }

// File says what [PrintFile] writes: one migration for another tool.
type File struct {
	// Format may be empty, which means [FormatPlain].
	Format Format
	// From is the version that the database has before; 0 when schema pglock is not installed.
	From uint
	// Down asks for the way back to From. In the formats of goose and dbmate it follows the way up; in the others it
	// replaces it, since their tools expect it in a separate file. dbmate refuses a file without a section for the way
	// back, so without Down that section is empty.
	Down bool
}

// PrintFile writes what leads from version f.From to the latest, or back, as one file that the tool of f.Format runs in
// one transaction. It is an error when there is nothing to do, or when the format is unknown; otherwise the error is that
// of w.
func PrintFile(w io.Writer, f File) error {
	text, err := f.text()
	if err != nil {
		return fmt.Errorf("migrations: print: %w", err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("migrations: print: %w", err)
	}
	return nil
}

func (f File) text() (string, error) {
	if f.From >= latest {
		return "", fmt.Errorf("there is nothing after version %d: the latest is %d", f.From, latest)
	}
	up, err := joined("up", f.From)
	if err != nil {
		return "", err
	}
	down, err := joined("down", f.From)
	if err != nil {
		return "", err
	}
	switch f.Format {
	case "", FormatPlain, FormatAtlas:
		if f.Down {
			return down, nil
		}
		return up, nil
	case FormatGoose: // what is in one statement is not split at semicolons
		const begin, end = "-- +goose StatementBegin\n", "-- +goose StatementEnd\n"
		text := "-- +goose Up\n" + begin + up + end
		if f.Down {
			text += "\n-- +goose Down\n" + begin + down + end
		}
		return text, nil
	case FormatDbmate:
		if !f.Down {
			down = ""
		}
		return "-- migrate:up\n" + up + "\n-- migrate:down\n" + down, nil
	}
	return "", fmt.Errorf("unknown format %q", string(f.Format))
}

// joined returns the migrations after version from: up, or down in the other order.
func joined(direction string, from uint) (string, error) {
	files, err := fs.Glob(FS, "*."+direction+".sql") // sorted by name, and so by number
	if err != nil {
		return "", err
	}
	files = files[from:]
	if direction == "down" {
		slices.Reverse(files)
	}
	var all strings.Builder
	for _, file := range files {
		sql, err := FS.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&all, "-- %s\n\n%s\n", file, sql)
	}
	return all.String(), nil
}
