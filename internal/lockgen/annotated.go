package lockgen

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ReadAnnotated reads a SQL file without sqlc: comments that declare keys, and queries, each below a line "-- name:
// PayInvoice :exec", with parameters $1, $2 and so on. A query's lock names them by number, as in invoice:{id=$1};
// their types are those of the key.
func (in *Input) ReadAnnotated(file, text string) error {
	var found problems
	in.Comments = append(in.Comments, InlineComments(file, text)...)
	line := 1
	for _, statement := range statements(text) {
		q, err := readStatement(file, line, statement)
		switch {
		case err != nil:
			found.add(q.At, "%v", err)
		case q.Name != "":
			in.Queries = append(in.Queries, q)
		default:
			in.Comments = append(in.Comments, q.Comments...)
		}
		line += strings.Count(statement, "\n")
	}
	return found.err()
}

// statements cuts the text after each ; that ends a statement.
func statements(text string) (all []string) {
	var statement strings.Builder
	for piece, isText := range pieces(text) {
		for !isText {
			before, after, ends := strings.Cut(piece, ";")
			if !ends {
				break
			}
			statement.WriteString(before + ";")
			all = append(all, statement.String())
			statement.Reset()
			piece = after
		}
		statement.WriteString(piece)
	}
	return append(all, statement.String())
}

var (
	nameLine   = regexp.MustCompile(`^-- name: ([A-Za-z_][A-Za-z0-9_]*) (:[a-z]+)$`)
	dollarNum  = regexp.MustCompile(`\$([0-9]+)`)
	sqlcSyntax = regexp.MustCompile(`(?i)\bsqlc\.\w+|@[a-z_]\w*`)
	commands   = []string{":exec", ":execrows", ":execresult", ":one", ":many", ":batchexec", ":batchmany", ":batchone"}
)

// readStatement reads the comments and the text of one statement; without a name there are only
// comments.
func readStatement(file string, first int, statement string) (q Query, err error) {
	q = Query{At: Position{File: file, Line: first}, Untyped: true}
	var sql []string
	for i, line := range strings.Split(statement, "\n") {
		line, at := strings.TrimRight(line, " \t\r"), Position{File: file, Line: first + i}
		comment, isComment := strings.CutPrefix(line, "--")
		match := nameLine.FindStringSubmatch(line)
		switch {
		case match != nil:
			q.Name, q.Command, q.At = match[1], match[2], at
		case strings.HasPrefix(line, "-- name:"):
			return q, fmt.Errorf("%q: want -- name: PayInvoice :exec", line)
		case isComment:
			q.Comments = append(q.Comments, Comment{Text: comment, At: at})
		default:
			sql = append(sql, line)
		}
	}
	q.SQL = strings.TrimSuffix(strings.TrimSpace(strings.Join(sql, "\n")), ";")
	if q.SQL == "" && q.Name == "" {
		return q, nil
	}
	q.Text = fmt.Sprintf("-- name: %s %s\n%s\n", q.Name, q.Command, q.SQL)
	return q, q.readParams()
}

func (q *Query) readParams() error {
	plain := withoutTexts(q.SQL)
	switch {
	case q.SQL == "":
		return fmt.Errorf("query %s has no SQL, or no ; at its end", q.Name)
	case q.Name == "":
		return fmt.Errorf("a statement has no name: write -- name: PayInvoice :exec above it")
	case !slices.Contains(commands, q.Command):
		return fmt.Errorf("query %s: unknown command %s: the commands are %s", q.Name, q.Command, strings.Join(commands, ", "))
	case sqlcSyntax.MatchString(plain):
		return fmt.Errorf("query %s has %s, which is sqlc's: write parameters as $1, or use the plugin of sqlc",
			q.Name, sqlcSyntax.FindString(plain))
	}
	for _, match := range dollarNum.FindAllStringSubmatch(plain, -1) {
		n, err := strconv.Atoi(match[1])
		if err != nil {
			return fmt.Errorf("query %s: $%s: %w", q.Name, match[1], err)
		}
		if !slices.ContainsFunc(q.Params, func(p Param) bool { return p.Number == n }) {
			q.Params = append(q.Params, Param{Number: n})
		}
	}
	return nil
}
