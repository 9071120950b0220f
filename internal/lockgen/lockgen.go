// Package lockgen generates a package of typed keys and locked queries from comments in SQL:
//
//	-- pglock: key invoice:{id bigint} -- one invoice
//	-- pglock: lock invoice:{id} max_wait=2s
//
// The sqlc plugin and the development tool are its front ends. They find the queries and their parameters; everything
// else is here.
package lockgen

import (
	"cmp"
	"errors"
	"fmt"
	"go/token"
	"slices"
)

// Position is a position in the SQL.
type Position struct {
	File  string
	Line  int    // 0 if it is not known
	Query string // the query that it belongs to, for positions without a line
}

func (p Position) String() string {
	switch {
	case p.Line > 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	case p.Query != "":
		return fmt.Sprintf("%s: query %s", p.File, p.Query)
	}
	return p.File
}

// Comment is a comment's text without its marks.
type Comment struct {
	Text   string
	At     Position
	Inline bool // it does not begin its line, or spans several lines: sqlc ignores it
}

// Param is a parameter of a query.
type Param struct {
	Number   int
	Name     string
	Type     string // as SQL or sqlc writes it; empty if it is not known
	Nullable bool
	Dims     int  // dimensions of an array; 0 for a single value
	Slice    bool // it is a sqlc.slice
}

// Query is a query of the project.
type Query struct {
	Name     string
	Command  string // such as ":exec"
	SQL      string // its text, without the line that names it
	Params   []Param
	Comments []Comment
	At       Position
}

// text is the query's full text, as sqlc's own Go generator writes it, and as it is passed to the transaction.
func (q Query) text() string { return fmt.Sprintf("-- name: %s %s\n%s\n", q.Name, q.Command, q.SQL) }

// Input is the input from a front end.
type Input struct {
	Package   string // the name of the Go package
	Generator string // the name of the generator, for the first line of the package
	Texts     bool   // asks for a constant with the text of each query
	Queries   []Query
	Comments  []Comment // comments that belong to no query
}

// FileName is the name of the one file that Generate makes.
const FileName = "locks.go"

// Generate returns the code of the package. Its error lists every problem, with a position and advice.
func Generate(in Input) ([]byte, error) {
	if !token.IsIdentifier(in.Package) || in.Package == "main" || in.Package == "_" {
		return nil, fmt.Errorf("package %q: want the name of a Go package, such as locks", in.Package)
	}
	p := &project{Input: in, byText: map[string]*key{}}
	p.read()
	p.checkKeys()
	if err := p.problems.err(); err != nil {
		return nil, err
	}
	return p.render()
}

// problems are the mistakes in the SQL.
type problems []problem

type problem struct {
	at   Position
	text string
}

// mostProblems is how many are listed. With wrong SQL there could be more than memory for their texts.
const mostProblems = 100

func (p *problems) full() bool { return len(*p) >= mostProblems }

func (p *problems) add(at Position, format string, args ...any) {
	if !p.full() {
		*p = append(*p, problem{at, fmt.Sprintf(format, args...)})
	}
}

func (p problems) err() error {
	slices.SortStableFunc(p, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.at.File, b.at.File), cmp.Compare(a.at.Line, b.at.Line))
	})
	var all []error
	for _, one := range p {
		all = append(all, fmt.Errorf("%s: %s", one.at, one.text))
	}
	if p.full() {
		all = append(all, errors.New("and perhaps more"))
	}
	return errors.Join(all...)
}
