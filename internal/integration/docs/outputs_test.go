package docs

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	block       = regexp.MustCompile("(?ms)^ *```(\\w*)\n(.*?)^ *```")
	wordOrMark  = regexp.MustCompile(`%[-+# 0-9.*\[\]]*[a-z]|[A-Za-z_]{2,}|\S`)
	spacedWords = regexp.MustCompile(`\b[A-Za-z_]{2,}(?: [A-Za-z_]{2,}\b)+`)
	titles      = regexp.MustCompile(`\b[A-Z]{3,}\b`)
	isWord      = regexp.MustCompile(`^[A-Za-z_]{2,}$`)
)

// Words in outputs that are data, or texts of PostgreSQL and of other programs, or what the view writes in capitals.
var foreignPairs = phrases(`
	role app; idle_session_timeout is; SET idle_session_timeout; user postgres; user app; database postgres
	SAVEPOINT can; be used; used in; transaction blocks; deadlock detected; for ShareLock; ShareLock on; on virtual
	for ExclusiveLock; ExclusiveLock on; by process; migrations applied
	run sleep; run true; rails db; postgres rails; postgres worker; postgres payments; postgres sync; postgres session
	postgres database; postgres application; shop behind; the shop; shop locks; select pg_advisory_lock; select pg_adv
	set deadlock_timeout; FROM orders; relation orders; job waits; owner blocks; TABLE orders; orders ADD; ADD total
	total int; orders waits; orders after; nightly to; pay controller; context deadline; deadline exceeded
	TREE; WARN; ADD; SQLSTATE; archive since; LOST archive; dial error; dial tcp; WARN msg; INFO msg; AddInvoice runs; PayInvoice runs; lock tenant; same key; select pg_sleep; add total
	set total; charge cont; select pg_advisory; select pg_a; vm billing; vm exporter`)

// TestDocsOutputsUseTheProgramsWords compares the outputs in the pages with the strings in the code, that of the pages
// included. If two words are
// adjacent in an output, they must be adjacent in a string too, or be at the ends of two values that are printed one
// after the other. So the test notices outputs whose wording has changed in the code.
func TestDocsOutputsUseTheProgramsWords(t *testing.T) {
	code := stringsInCode(t)
	for _, page := range pages(t) {
		for _, block := range goBlock.FindAllStringSubmatch(read(t, page), -1) {
			code.addFile(block[1])
		}
	}
	for _, page := range pages(t) {
		for pair := range pairsInOutputs(read(t, page)) {
			if !code.says(pair) && !foreignPairs[pair] {
				t.Errorf("%s: no string in the code says %q, as an output there does", page, pair)
			}
		}
	}
}

// pairsInOutputs returns the pairs of words that have one space between them in the outputs of a page, and the words in
// capitals, such as titles of columns. Lines with the path of a module are commands.
func pairsInOutputs(page string) map[string]bool {
	pairs := map[string]bool{}
	for _, match := range block.FindAllStringSubmatch(page, -1) {
		if match[1] != "" && match[1] != "text" && match[1] != "console" {
			continue
		}
		for line := range strings.Lines(match[2]) {
			if strings.HasPrefix(line, "$ ") || strings.Contains(line, "github.com/") {
				continue
			}
			for _, title := range titles.FindAllString(line, -1) {
				pairs[title] = true
			}
			for _, run := range spacedWords.FindAllString(line, -1) {
				list := strings.Split(run, " ")
				for i := range len(list) - 1 {
					pairs[list[i]+" "+list[i+1]] = true
				}
			}
		}
	}
	return pairs
}

// said contains the words of the string literals of all programs and packages.
type said struct {
	words       map[string]bool
	pairs       map[string]bool // pairs of adjacent words
	first, last map[string]bool // words that begin or end a literal, or are next to a verb or a mark in it
}

// says reports whether a literal has the word, or whether two words can be adjacent: in a literal, or where one value
// is printed after another.
func (s *said) says(pair string) bool {
	one, other, both := strings.Cut(pair, " ")
	if !both {
		return s.words[one]
	}
	return s.pairs[pair] || s.last[one] && s.first[other]
}

func stringsInCode(t *testing.T) *said {
	t.Helper()
	s := &said{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == "testdata" || strings.HasPrefix(name, ".") && len(name) > 2) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			s.addFile(read(t, path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// addFile adds the literals of a file. Literals joined by + count as one.
func (s *said) addFile(code string) {
	var scan scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(code))
	scan.Init(file, []byte(code), nil, 0)
	for text, kind := "", token.ILLEGAL; kind != token.EOF; {
		var literal string
		switch _, kind, literal = scan.Scan(); kind {
		case token.STRING:
			value, _ := strconv.Unquote(literal)
			text += value
		case token.ADD:
		default:
			s.add(text)
			text = ""
		}
	}
}

func (s *said) add(text string) {
	last := ""
	for _, word := range append(wordOrMark.FindAllString(text, -1), ".") {
		if !isWord.MatchString(word) {
			word = ""
		}
		s.words[word] = true
		switch {
		case last != "" && word != "":
			s.pairs[last+" "+word] = true
		case word != "":
			s.first[word] = true
		case last != "":
			s.last[last] = true
		}
		last = word
	}
}

// phrases are separated by semicolons and ends of lines.
func phrases(text string) map[string]bool {
	set := map[string]bool{}
	for _, phrase := range regexp.MustCompile(`[;\n]`).Split(text, -1) {
		set[strings.TrimSpace(phrase)] = true
	}
	return set
}
