package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/pglock-toolkit/pglock/cmd/pglock/internal/view"
	"github.com/pglock-toolkit/pglock/pglock"
)

func newKey() *cobra.Command {
	var output format
	cmd := &cobra.Command{
		Use:   "key NAME…",
		Short: "Show the number of a lock, and the SQL that takes it",
		Long: `It also says how pg_locks shows the lock. No database is needed. The SQL by name
needs schema pglock (pglock migrate up). All commands take keys in these forms:

  invoice:42     a name, as in pglock.NewKey("invoice:42") and in SQL
                 pglock.key('invoice:42')
  @42            the lock that SQL knows as pg_advisory_lock(42)
  @7/-42         the lock that SQL knows as pg_advisory_lock(7, -42)
  @@home         the name "@home"`,
		Example: `  pglock key invoice:42
  pglock key --output json @42 @7/-42`,
		Args: arguments(1, -1, "at least one NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			described := make([]description, len(args))
			for i, text := range args {
				key, err := parseKey(cmd, text)
				if err != nil {
					return err
				}
				described[i] = describe(key)
			}
			return printKeys(cmd.OutOrStdout(), described, output)
		},
	}
	output.addTo(cmd, formatText, formatJSON)
	return cmd
}

// description describes a key without asking a server.
type description struct {
	Key    string `json:"key"`
	Name   string `json:"name"`
	Space  string `json:"space"`
	Number int64  `json:"number,string"` // many JSON parsers round integers beyond 2^53
	Class  int32  `json:"class"`
	Object int32  `json:"object"`

	// Classid, Objid and Objsubid are what pg_locks shows
	// (https://www.postgresql.org/docs/current/view-pg-locks.html).
	Classid  uint32 `json:"classid"`
	Objid    uint32 `json:"objid"`
	Objsubid int    `json:"objsubid"`

	Session       string `json:"session_sql"`
	SessionUnlock string `json:"session_unlock_sql"`
	Transaction   string `json:"transaction_sql"`
	ByName        string `json:"transaction_by_name_sql"` // empty if the key has no name in SQL

	given pglock.Key
}

func describe(key pglock.Key) description {
	d := description{
		given: key, Key: key.String(), Name: key.Name(), Space: "bigint", Objsubid: 1, Number: key.Int64(),
		Class: int32(key.Int64() >> 32), Object: int32(key.Int64()),
	}
	arguments := fmt.Sprint(d.Number)
	if _, _, pair := key.Pair(); pair {
		d.Space, d.Objsubid = "pair", 2
		arguments = fmt.Sprintf("%d, %d", d.Class, d.Object)
	}
	d.Classid, d.Objid = uint32(d.Class), uint32(d.Object)
	d.Session = fmt.Sprintf("SELECT pg_advisory_lock(%s)", arguments)
	d.SessionUnlock = fmt.Sprintf("SELECT pg_advisory_unlock(%s)", arguments)
	d.Transaction = fmt.Sprintf("SELECT pg_advisory_xact_lock(%s)", arguments)
	d.ByName = byName(d.Name)
	return d
}

// byName returns the SQL that takes a lock by name. It is empty if there is no name.
func byName(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf("SELECT pg_advisory_xact_lock(pglock.key(%s))", literal(name))
}

// literal returns valid UTF-8 without NUL as a printable SQL string constant that can be copied from a terminal. A
// constant with escapes means the same whatever standard_conforming_strings is
// (https://www.postgresql.org/docs/current/sql-syntax-lexical.html#SQL-SYNTAX-STRINGS-ESCAPE).
func literal(text string) string {
	var b strings.Builder
	prefix := ""
	for _, r := range text {
		switch {
		case r == '\'':
			b.WriteString("''")
		case r == '\\':
			prefix = "E"
			b.WriteString(`\\`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			prefix = "E"
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return prefix + "'" + b.String() + "'"
}

func printKeys(w io.Writer, described []description, output format) error {
	if output == formatJSON {
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(described)
	}
	_, err := io.WriteString(w, keysAsText(described))
	return err
}

// keysAsText writes each statement on its own line, to be copied.
func keysAsText(described []description) string {
	blocks := make([]string, len(described))
	for i, d := range described {
		number := fmt.Sprint(d.Number)
		if d.Space == "pair" {
			number = fmt.Sprintf("%d, %d", d.Class, d.Object)
		}
		lines := []string{
			view.Printable(d.given.String()),
			"  number       " + number,
			fmt.Sprintf("  in pg_locks  classid %d, objid %d, objsubid %d", d.Classid, d.Objid, d.Objsubid),
			"  session      " + d.Session + ";",
			"               " + d.SessionUnlock + ";",
			"  transaction  " + d.Transaction + ";",
		}
		if d.ByName != "" {
			lines = append(lines, "               "+d.ByName+";")
		}
		blocks[i] = strings.Join(lines, "\n") + "\n"
	}
	return strings.Join(blocks, "\n")
}
