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

// sources has the comments of the query files, with their lines, which sqlc's requests do not contain. It also has the
// directives that belong to no query, which sqlc omits from its requests.
type sources struct {
	comments []*line            // all of them
	byText   map[string][]*line // the comments, by their text in sqlc's requests
	names    map[string]*line   // the lines that name queries, by the file's base name (as in a request) and the query's name
	inline   []lockgen.Comment  // which sqlc does not pass on
}

// line is a comment on a separate line.
type line struct {
	file    string
	number  int
	text    string // without its marks, as sqlc passes it on
	claimed bool   // it came with a query
}

// newSources reads the query files in dir, which are named by their paths after prefix.
func newSources(dir fs.FS, prefix string, queries []string) *sources {
	s := &sources{byText: map[string][]*line{}, names: map[string]*line{}}
	if dir == nil {
		return s
	}
	for _, pattern := range queries {
		for _, file := range filesOf(dir, path.Clean(pattern)) {
			if text, err := fs.ReadFile(dir, file); err == nil { // without the file there are no lines
				s.read(path.Join(prefix, file), string(text))
			}
		}
	}
	return s
}

var nameLine = regexp.MustCompile(`^\s*name:\s*(\S+)\s`)

func (s *sources) read(file, text string) {
	s.inline = append(s.inline, lockgen.InlineComments(file, text)...)
	for i, l := range strings.Split(text, "\n") {
		comment, ok := commentText(strings.TrimSuffix(l, "\r"))
		if !ok {
			continue
		}
		one := &line{file: file, number: i + 1, text: comment}
		if match := nameLine.FindStringSubmatch(comment); match != nil {
			if named := path.Base(file) + " " + match[1]; s.names[named] == nil {
				s.names[named] = one
			}
			continue
		}
		s.comments = append(s.comments, one)
		s.byText[comment] = append(s.byText[comment], one)
	}
}

// commentText is the text that sqlc makes from a comment line.
func commentText(l string) (text string, ok bool) {
	if text, ok := strings.CutPrefix(l, "--"); ok {
		return text, true
	}
	text, begins := strings.CutPrefix(l, "/*")
	text, ends := strings.CutSuffix(text, "*/")
	return text, begins && ends
}

// filesOf returns the SQL files of an entry of queries: a file, a directory or a pattern.
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
	if l := s.names[file+" "+name]; l != nil {
		return lockgen.Position{File: l.file, Line: l.number, Query: name}
	}
	return lockgen.Position{File: file, Query: name}
}

// comment is the position of a query's comment: of the lines that are this comment, the one nearest to the query's name.
func (s *sources) comment(query lockgen.Position, text string) lockgen.Position {
	var best *line
	for _, l := range s.byText[text] {
		if l.claimed || l.file != query.File {
			continue
		}
		if best == nil || distance(l.number, query.Line) < distance(best.number, query.Line) {
			best = l
		}
	}
	if best != nil {
		best.claimed = true
		query.Line = best.number
	}
	return query
}

func distance(a, b int) int { return max(a-b, b-a) }

// leftovers returns the directives that came with no query.
func (s *sources) leftovers() (comments []lockgen.Comment) {
	for _, l := range s.comments {
		if !l.claimed && lockgen.IsDirective(l.text) {
			comments = append(comments, lockgen.Comment{Text: l.text, At: lockgen.Position{File: l.file, Line: l.number}})
		}
	}
	return append(comments, s.inline...)
}

// checkPrepared looks in sqlc's configuration, which is not in the request, for an option that bypasses the locks.
func checkPrepared(dir fs.FS, plugin string, input lockgen.Input) error {
	if dir == nil || !slices.ContainsFunc(input.Queries, hasLock) {
		return nil
	}
	for _, config := range configs(dir) {
		for _, block := range blocks(config) {
			if uses(block, plugin) && prepared.MatchString(block) {
				return errPrepared
			}
		}
	}
	return nil
}

// configs returns the texts of sqlc's configuration in dir.
func configs(dir fs.FS) (all []string) {
	for _, name := range []string{"sqlc.yaml", "sqlc.yml", "sqlc.json"} {
		if text, err := fs.ReadFile(dir, name); err == nil {
			all = append(all, string(text))
		}
	}
	return all
}

func hasLock(q lockgen.Query) bool {
	return slices.ContainsFunc(q.Comments, func(c lockgen.Comment) bool {
		return lockgen.IsDirective(c.Text)
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
