// Command sqltext checks that SQL stands in queries/ and migrations/, where sqlc reads it, and not in Go files. Those that
// docs/architecture.md lists are excepted: it says for each file how its statements begin.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if err := run("docs/architecture.md"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// entry is a statement that the page lists, or with "…" at its end those that begin so.
type entry struct{ file, text string }

func (e entry) covers(file, statement string) bool {
	beginning, some := strings.CutSuffix(e.text, "…")
	return e.file == file && (statement == e.text || some && strings.HasPrefix(statement, beginning))
}

func run(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	entries := listed(string(text))
	files, err := exec.Command("git", "ls-files", "-co", "--exclude-standard", "*.go", "*.sql").Output()
	if err != nil {
		return fmt.Errorf("list the files: %w", err)
	}
	var problems []error
	used := map[entry]bool{}
	for _, file := range strings.Fields(string(files)) {
		statements, err := statementsIn(file)
		if err != nil {
			return err
		}
		for _, s := range statements {
			at := slices.IndexFunc(entries, func(e entry) bool { return e.covers(file, s) })
			if at < 0 {
				problems = append(problems, fmt.Errorf("%s: %.60q belongs into queries/; if sqlc cannot compile it, list it in %s", file, s, page))
			} else {
				used[entries[at]] = true
			}
		}
	}
	for _, e := range entries {
		if !used[e] {
			problems = append(problems, fmt.Errorf("%s: %s has no statement %q", page, e.file, e.text))
		}
	}
	return errors.Join(problems...)
}

var code = regexp.MustCompile("`([^`]+)`")

// listed reads the rows of the table of SQL outside of queries/: a file, and its statements.
func listed(page string) (entries []entry) {
	_, section, _ := strings.Cut(page, "\n## SQL outside of `queries/`\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		cells := strings.Split(line, " | ")
		file := code.FindStringSubmatch(cells[0])
		if len(cells) < 3 || file == nil {
			continue
		}
		for _, text := range code.FindAllStringSubmatch(cells[1], -1) {
			entries = append(entries, entry{file[1], text[1]})
		}
	}
	return entries
}

// elsewhere are files that the published modules do not have, or only for tests, and those with SQL that sqlc or the
// migrations read.
var elsewhere = regexp.MustCompile(`^(bench|examples|queries|internal/(integration|lockfixture|testenv|tools)|.*/testdata)/|` +
	`^migrations/.*\.sql$|_test\.go$|test/[^/]*\.go$|/locks\.sql$|/demo/schema\.sql$`)

var generated = regexp.MustCompile(`(?m)^(//|--) Code generated .* DO NOT EDIT\.$`)

// statementsIn returns the SQL in a file, with one space between words.
func statementsIn(file string) (found []string, err error) {
	if elsewhere.MatchString(file) {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // removed, and not committed yet
	}
	if err != nil || generated.Match(text) {
		return nil, err
	}
	if strings.HasSuffix(file, ".sql") {
		return []string{spaced(string(text))}, nil
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			s, _ := strconv.Unquote(lit.Value) // the parser has read it
			if s = comment.ReplaceAllString(s, ""); statement.MatchString(spaced(s) + " ") {
				found = append(found, spaced(s))
			}
		}
		return true
	})
	return found, nil
}

func spaced(s string) string { return strings.Join(strings.Fields(s), " ") }

var comment = regexp.MustCompile(`(?m)--.*$`)

// statement matches SQL, whose keywords are written in capitals here, and what is certainly SQL in small letters.
var statement = regexp.MustCompile(`^(SELECT|WITH|VALUES|TABLE|INSERT|UPDATE|DELETE|MERGE|SET|RESET|SHOW|BEGIN|START|COMMIT|` +
	`ROLLBACK|ABORT|SAVEPOINT|RELEASE|PREPARE|EXECUTE|DEALLOCATE|COPY|CREATE|ALTER|DROP|TRUNCATE|GRANT|REVOKE|COMMENT|` +
	`LOCK|CALL|DO|DECLARE|FETCH|CLOSE|LISTEN|UNLISTEN|NOTIFY|DISCARD|ANALYZE|VACUUM|EXPLAIN|CHECKPOINT)[ ;]|FROM pg_catalog\.|` +
	`^(?i:select .*(\(| from )|insert into |update \S+ set |delete from |with \w+ as \(|savepoint \w+ $|set (local|session) \w|` +
	`(create|alter|drop) (table|role|database|schema|function) \w)`)
