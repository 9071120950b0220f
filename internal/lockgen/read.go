package lockgen

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ReadSQL reads a file of SQL: queries, each with a line "-- name: PayInvoice :exec" and the comments around it, and
// comments that belong to no query. It knows nothing of their parameters.
func ReadSQL(file, text string) (queries []Query, others []Comment) {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	line := 1
	for _, statement := range statements(text) {
		q := readStatement(file, line, statement)
		if q.Name == "" && q.SQL == "" {
			others = append(others, q.Comments...)
		} else {
			queries = append(queries, q)
		}
		line += strings.Count(statement, "\n")
	}
	return queries, append(others, inlineComments(file, text)...)
}

// Read reads a file of SQL without sqlc. Parameters are $1, $2 and so on, whose types are not known.
func (in *Input) Read(file, text string) error {
	queries, others := ReadSQL(file, text)
	in.Comments = append(in.Comments, others...)
	var found problems
	for _, q := range queries {
		if err := q.readParams(); err != nil {
			found.add(q.At, "%v", err)
		}
		in.Queries = append(in.Queries, q)
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
	nameLine   = regexp.MustCompile(`^\s*name:\s*(\S+)\s+(:\S+)\s*$`)
	dollarNum  = regexp.MustCompile(`\$([0-9]+)`)
	sqlcSyntax = regexp.MustCompile(`(?i)\bsqlc\.\w+|@[a-z_]\w*`)
	goName     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	commands   = []string{":exec", ":execrows", ":execresult", ":one", ":many", ":batchexec", ":batchmany", ":batchone"}
)

// readStatement reads the comments and the text of one statement.
func readStatement(file string, first int, statement string) (q Query) {
	q.At = Position{File: file, Line: first}
	var sql []string
	for i, line := range strings.Split(statement, "\n") {
		line, at := strings.TrimRight(line, " \t\r"), Position{File: file, Line: first + i}
		comment, isComment := commentLine(line)
		match := nameLine.FindStringSubmatch(comment)
		switch {
		case match != nil:
			q.Name, q.Command, q.At = match[1], match[2], at
		case isComment:
			q.Comments = append(q.Comments, Comment{Text: comment, At: at})
		default:
			sql = append(sql, line)
		}
	}
	q.SQL = strings.TrimSuffix(strings.TrimSpace(strings.Join(sql, "\n")), ";")
	return q
}

// commentLine is the text that sqlc makes of a line that is a comment.
func commentLine(line string) (text string, ok bool) {
	if text, ok := strings.CutPrefix(line, "--"); ok {
		return text, true
	}
	text, begins := strings.CutPrefix(line, "/*")
	text, ends := strings.CutSuffix(text, "*/")
	if !begins || !ends {
		return "", false
	}
	return text, true
}

func (q *Query) readParams() error {
	plain := withoutTexts(q.SQL)
	switch {
	case q.SQL == "":
		return fmt.Errorf("query %s has no SQL, or no ; at its end", q.Name)
	case !goName.MatchString(q.Name):
		return fmt.Errorf("a statement has no name, or one that Go cannot have: write -- name: PayInvoice :exec above it")
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
