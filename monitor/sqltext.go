package monitor

import (
	"regexp"
	"strings"
	"unicode"
)

// mostTexts is how many comments and strings of a query are looked at, and how many words of its comments.
const mostTexts = 32

// commentOrString matches what people and libraries write a lock's name into: with_advisory_lock and others put it in a
// comment, hand-written SQL into a string such as pglock.key('invoice:42'). It need not be exact about what a comment
// is in which place, since a text is only believed to be a key's name when its hash is the key.
var commentOrString = regexp.MustCompile(`(?s)/\*(.*?)\*/|--([^\n]*)|'((?:[^']|'')*)'`)

// textsIn returns the comments and strings of a query, and then the words of its comments: a name may stand among others,
// as in lock='invoice:42'.
func textsIn(query string) []string {
	var texts, words []string
	for _, match := range commentOrString.FindAllStringSubmatch(query, mostTexts) {
		comment := strings.TrimSpace(match[1] + match[2])
		if comment != "" {
			texts = append(texts, comment)
			words = append(words, wordsIn(comment)...)
		}
		for _, value := range parseTags(comment) {
			words = append(words, value)
		}
		if match[3] != "" {
			texts = append(texts, strings.ReplaceAll(match[3], "''", "'"))
		}
	}
	return append(texts, words[:min(len(words), mostTexts)]...)
}

// wordsIn returns the words of a comment that has several.
func wordsIn(comment string) []string {
	words := strings.FieldsFunc(comment, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`'"=,;()`, r) })
	if len(words) == 1 && words[0] == comment {
		return nil
	}
	return words
}
