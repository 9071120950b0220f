package monitor

import (
	"regexp"
	"strings"
	"unicode"
)

// maxTexts is how many comments and strings of a query are looked at, and how many words of its comments.
const maxTexts = 32

// commentOrString matches the parts of a query that can contain a lock's name: with_advisory_lock and others put it in a
// comment, and hand-written SQL in a string, as in pglock.key('invoice:42'). It need not be an exact SQL parser, since a
// text counts as a key's name only if its hash is the key.
var commentOrString = regexp.MustCompile(`(?s)/\*(.*?)\*/|--([^\n]*)|'((?:[^']|'')*)'`)

// textsIn returns the comments and strings of a query, and then the words of its comments, since a comment can contain
// more than the name, as in lock='invoice:42'.
func textsIn(query string) []string {
	var texts, words []string
	for _, match := range commentOrString.FindAllStringSubmatch(query, maxTexts) {
		comment := strings.TrimSpace(match[1] + match[2])
		if comment != "" {
			texts = append(texts, comment)
			words = append(words, wordsIn(comment)...)
		}
		if match[3] != "" {
			texts = append(texts, strings.ReplaceAll(match[3], "''", "'"))
		}
	}
	return append(texts, words[:min(len(words), maxTexts)]...)
}

// wordsIn returns the words of a comment that has several.
func wordsIn(comment string) []string {
	words := strings.FieldsFunc(comment, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`'"=,;()`, r) })
	if len(words) == 1 && words[0] == comment {
		return nil
	}
	return words
}
