// Package lockgen generates a package of typed keys and locked queries from comments in SQL:
//
//	-- pglock: key invoice:{id bigint} owner=billing -- one invoice
//	-- pglock: lock invoice:{id} max_wait=2s
//
// The sqlc plugin and the command pglock generate are its front ends. They find the queries and their parameters;
// everything else is here.
package lockgen

import (
	"cmp"
	"errors"
	"fmt"
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

// Comment is a comment's text without its marks, on one line.
type Comment struct {
	Text   string
	At     Position
	Inline bool // the comment does not begin its line
}

// Param is a parameter of a query.
type Param struct {
	Number   int
	Name     string
	Type     string // as SQL or sqlc writes it
	Nullable bool
	Dims     int  // dimensions of an array; 0 for a single value
	Slice    bool // it is a sqlc.slice
}

// Query is a query of the project.
type Query struct {
	Name     string
	Command  string // such as ":exec"
	SQL      string // its text, without the line that names it
	Text     string // its full text, as passed to the transaction
	Params   []Param
	Comments []Comment
	At       Position
	// Untyped says that the types of parameters are not known, so that keys have to declare them.
	Untyped bool
}

// Input is the input from a front end.
type Input struct {
	Options  Options
	Queries  []Query
	Comments []Comment // comments that belong to no query
	// Previous is the file [TemplatesFile] that the new one will replace, with its path; zero if there is none.
	Previous File
}

// File is a file of the generated package.
type File struct {
	Name     string
	Contents []byte
}

// Generate returns the files of the package. Its error lists every problem, with a position and advice.
func Generate(in Input) ([]File, error) {
	if err := in.Options.check(); err != nil {
		return nil, err
	}
	p := &project{Options: in.Options}
	p.read(in)
	p.checkKeys()
	p.checkDeclared()
	p.checkPrevious(in.Previous)
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

func (p *problems) add(at Position, format string, args ...any) {
	*p = append(*p, problem{at, fmt.Sprintf(format, args...)})
}

func (p problems) err() error {
	slices.SortStableFunc(p, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.at.File, b.at.File), cmp.Compare(a.at.Line, b.at.Line))
	})
	var err error
	for _, one := range p {
		err = errors.Join(err, fmt.Errorf("%s: %s", one.at, one.text))
	}
	return err
}
