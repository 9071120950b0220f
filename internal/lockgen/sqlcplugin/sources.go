package sqlcplugin

import (
	"io/fs"
	"path"
	"slices"

	"github.com/pglock-toolkit/pglock/internal/lockgen"
)

// sources are the query files, which have the lines of comments, and comments that sqlc does not pass on: those behind the
// last query, and those that do not begin their line.
type sources struct {
	queries  []lockgen.Query // their comments are those that no query of the request has claimed
	comments []lockgen.Comment
}

// newSources reads the query files of a request in dir.
func newSources(dir fs.FS, queries []string) *sources {
	s := &sources{}
	for _, pattern := range queries {
		for _, file := range filesOf(dir, path.Clean(pattern)) {
			if text, err := fs.ReadFile(dir, file); err == nil { // without the file there are no lines
				queries, comments := lockgen.ReadSQL(file, string(text))
				s.queries, s.comments = append(s.queries, queries...), append(s.comments, comments...)
			}
		}
	}
	return s
}

// filesOf returns the SQL files of an entry of queries: a file, a directory or a pattern.
func filesOf(dir fs.FS, pattern string) (files []string) {
	matches, _ := fs.Glob(dir, pattern) // a pattern that is none matches nothing
	for _, match := range matches {
		inside, err := fs.Glob(dir, path.Join(match, "*.sql"))
		if err != nil || len(inside) == 0 {
			inside = []string{match}
		}
		files = append(files, inside...)
	}
	return files
}

// locate gives a query and its comments the lines that they have in their file, of which sqlc passes on the last element
// of the name.
func (s *sources) locate(q *lockgen.Query) {
	i := slices.IndexFunc(s.queries, func(other lockgen.Query) bool {
		return other.Name == q.Name && path.Base(other.At.File) == q.At.File
	})
	if i < 0 {
		return
	}
	source := &s.queries[i]
	q.At = source.At
	for n, comment := range q.Comments {
		q.Comments[n].At = q.At
		at := slices.IndexFunc(source.Comments, func(c lockgen.Comment) bool { return c.Text == comment.Text })
		if at >= 0 {
			q.Comments[n].At = source.Comments[at].At
			source.Comments = slices.Delete(source.Comments, at, at+1)
		}
	}
}

// leftovers are the comments that came with no query.
func (s *sources) leftovers() []lockgen.Comment {
	all := s.comments
	for _, q := range s.queries {
		all = append(all, q.Comments...)
	}
	return all
}
