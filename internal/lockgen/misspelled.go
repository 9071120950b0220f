package lockgen

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
)

// marker is the first word of directives.
const marker = "pglock"

// misspelledParts matches the parts of a comment that may be a misspelled directive: the marker, what separates it from
// the verb, the verb, and the rest. The marker may be written as two words.
var misspelledParts = regexp.MustCompile(`(?is)^([^\pL\pN]*)(pg[ _-]*\pL+|\pL+)(\s*[:;=.,>-]+\s*|\s+)(\pL*)(.*)$`)

// checkSpelling refuses a misspelled directive, since its query would run without its lock. A comment that only
// mentions pglock is prose.
func checkSpelling(comment string) error {
	match := misspelledParts.FindStringSubmatch(comment)
	if match == nil {
		return nil
	}
	junk, word, between, verb, rest := strings.TrimSpace(match[1]), match[2], strings.TrimSpace(match[3]), match[4], match[5]
	distance := editDistance(strings.ToLower(wordParts.Replace(word)), marker)
	if distance > 2 || (distance == 2 && !strings.EqualFold(word[:1], marker[:1])) {
		return nil
	}
	meant, certain := meantVerb(verb)
	switch {
	case meant == "" && between != "" && strings.Contains(verb+rest, "{"):
		meant, rest = "lock", verb+rest // the verb is missing
	case meant == "", !certain && between == "":
		return nil
	case certain && between != "" && distance > 0 && word == wordParts.Replace(word):
	case !resemblesLock(rest):
		return nil
	}
	if junk == "" && distance == 0 && between == "" {
		return fmt.Errorf("%q lacks a colon: write %q", strings.TrimSpace(comment), correct(meant, rest))
	}
	return fmt.Errorf("%q is misspelled, so it would be ignored: write %q", strings.TrimSpace(comment), correct(meant, rest))
}

var wordParts = strings.NewReplacer(" ", "", "_", "", "-", "")

func correct(verb, rest string) string {
	rest, _, _ = strings.Cut(strings.TrimSpace(rest), "\n")
	return fmt.Sprintf("-- %s: %s %s", marker, verb, strings.TrimSpace(rest))
}

// meantVerb returns the verb that a directive means; it is certain if the verb is spelled
// correctly.
func meantVerb(word string) (verb string, certain bool) {
	for _, verb := range []string{"lock", "key"} {
		switch distance := editDistance(strings.ToLower(word), verb); {
		case distance == 0:
			return verb, true
		case distance == 1:
			return verb, false
		}
	}
	return "", false
}

var anyOption = regexp.MustCompile(`^(shared|try|savepoint|max_?wait.*|owner=.*|func=.*|names=.*)$`)

// resemblesLock reports whether the text is a template followed only by options.
func resemblesLock(text string) bool {
	template, options := keytemplate.CutTemplate(text)
	if strings.Contains(template, "{") {
		return true
	}
	if template == "" || strings.ContainsAny(template[len(template)-1:], ".,:;!?") {
		return false
	}
	options, _, _ = strings.Cut(options, "--")
	for _, option := range strings.Fields(options) {
		if !anyOption.MatchString(option) {
			return false
		}
	}
	return true
}

// editDistance is how many letters have to be added, removed, replaced or swapped with their neighbour.
func editDistance(one, other string) int {
	a, b := []rune(one), []rune(other)
	var before, last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(last[j]+1, row[j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
