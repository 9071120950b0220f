package sqlcplugin

import (
	"encoding/json"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/lockgen"
)

// sources are the files with queries, as far as they can be read: sqlc's requests do not tell lines. They also tell of
// directives that belong to no query, which sqlc leaves out of its request.
type sources struct {
	lines map[string][]line // by the file's base name, as in a request
}

type line struct {
	file    string
	number  int
	text    string
	claimed bool // the comment has come with a query
}

func newSources(dir fs.FS, queries []string) *sources {
	s := &sources{map[string][]line{}}
	if dir == nil {
		return s
	}
	for _, pattern := range queries {
		for _, file := range filesOf(dir, path.Clean(pattern)) {
			text, err := fs.ReadFile(dir, file)
			if err != nil {
				continue // without the file there are no lines
			}
			for i, l := range strings.Split(string(text), "\n") {
				base := path.Base(file)
				s.lines[base] = append(s.lines[base], line{file: file, number: i + 1, text: strings.TrimSuffix(l, "\r")})
			}
		}
	}
	return s
}

// filesOf are the SQL files that an entry of queries: stands for: a file, a directory or a pattern.
func filesOf(dir fs.FS, pattern string) (files []string) {
	matches, err := fs.Glob(dir, pattern)
	if err != nil {
		return nil
	}
	for _, match := range matches {
		inside, err := fs.Glob(dir, path.Join(match, "*.sql"))
		if err != nil || len(inside) == 0 {
			inside = []string{match}
		}
		files = append(files, inside...)
	}
	return files
}

// query is the position of the line that names a query.
func (s *sources) query(file, name string) lockgen.Position {
	named := regexp.MustCompile(`^(--|/\*)\s*name:\s*` + regexp.QuoteMeta(name) + `\s`)
	for _, l := range s.lines[file] {
		if named.MatchString(l.text) {
			return lockgen.Position{File: l.file, Line: l.number, Query: name}
		}
	}
	return lockgen.Position{File: file, Query: name}
}

// comment is the position of a query's comment: of the lines that are this comment, the one nearest to the query's name.
func (s *sources) comment(query lockgen.Position, text string) lockgen.Position {
	lines := s.lines[path.Base(query.File)]
	best := -1
	for i, l := range lines {
		if l.claimed || l.file != query.File || commentText(l.text) != text {
			continue
		}
		if best < 0 || distance(l.number, query.Line) < distance(lines[best].number, query.Line) {
			best = i
		}
	}
	if best < 0 {
		return query
	}
	lines[best].claimed = true
	query.Line = lines[best].number
	return query
}

func distance(a, b int) int { return max(a-b, b-a) }

// commentText is what sqlc makes of a line that is a comment.
func commentText(l string) string {
	if text, ok := strings.CutPrefix(l, "--"); ok {
		return text
	}
	return strings.TrimSuffix(strings.TrimPrefix(l, "/*"), "*/")
}

var directive = regexp.MustCompile(`(?i)^(--|/\*)\s*pglock\b`)

// leftovers are the directives that came with no query.
func (s *sources) leftovers() (comments []lockgen.Comment) {
	for _, lines := range s.lines {
		for _, l := range lines {
			if !l.claimed && directive.MatchString(l.text) {
				comments = append(comments, lockgen.Comment{
					Text: commentText(l.text), At: lockgen.Position{File: l.file, Line: l.number},
				})
			}
		}
	}
	slices.SortFunc(comments, func(a, b lockgen.Comment) int {
		return strings.Compare(a.At.String(), b.At.String())
	})
	return comments
}

// checkPrepared looks into sqlc's configuration, which no request tells of, for an option that bypasses the locks.
func checkPrepared(dir fs.FS, plugin string, input lockgen.Input) error {
	if dir == nil || !slices.ContainsFunc(input.Queries, hasLock) {
		return nil
	}
	for _, name := range []string{"sqlc.yaml", "sqlc.yml", "sqlc.json"} {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			continue
		}
		for _, block := range blocks(string(text)) {
			if uses(block, plugin) && prepared.MatchString(block) {
				return errPrepared
			}
		}
	}
	return nil
}

func hasLock(q lockgen.Query) bool {
	return slices.ContainsFunc(q.Comments, func(c lockgen.Comment) bool {
		return directive.MatchString("--" + c.Text)
	})
}

var (
	prepared = regexp.MustCompile(`(?m)^[^#\n]*"?\bemit_prepared_queries"?\s*:\s*true\b`)
	sqlKey   = regexp.MustCompile(`(?m)^"?sql"?\s*:`)
	item     = regexp.MustCompile(`(?m)^[ \t]*- `)
)

func uses(block, plugin string) bool {
	return regexp.MustCompile(`"?plugin"?\s*:\s*["']?` + regexp.QuoteMeta(plugin) + `\b`).MatchString(block)
}

// blocks are the entries of the configuration's list sql, each as text.
func blocks(config string) []string {
	var parsed struct {
		SQL []json.RawMessage `json:"sql"`
	}
	if json.Unmarshal([]byte(config), &parsed) == nil {
		var all []string
		for _, block := range parsed.SQL {
			all = append(all, string(block))
		}
		return all
	}
	start := sqlKey.FindStringIndex(config)
	if start == nil {
		return nil
	}
	config = config[start[1]:]
	first := item.FindString(config)
	if first == "" {
		return []string{config}
	}
	return strings.Split("\n"+config, "\n"+first)
}
