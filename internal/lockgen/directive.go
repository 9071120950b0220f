package lockgen

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
)

// marker begins directives. Case and space do not matter.
var marker = regexp.MustCompile(`(?is)^\s*pglock\s*:\s*(\S*)\s*(.*?)\s*$`)

// cutDirective returns the verb of a directive and the rest; ok is false for other comments. A misspelled directive is an
// error.
func cutDirective(comment string) (verb, rest string, ok bool, err error) {
	match := marker.FindStringSubmatch(comment)
	if match == nil {
		return "", "", false, checkSpelling(comment)
	}
	return strings.ToLower(match[1]), match[2], true, nil
}

// resembling matches what may be a misspelled directive: a word like the marker, and a verb.
var resembling = regexp.MustCompile(`(?i)^\W*(p[\w-]*\w)(\s*[:;=.]\s*|\s+)(lock|key)\s+(\S.*)`)

// checkSpelling refuses a misspelled directive, since its query would run without its lock: the marker has the right
// letters but for two, or no colon follows it and a template does.
func checkSpelling(comment string) error {
	match := resembling.FindStringSubmatch(comment)
	if match == nil {
		return nil
	}
	word := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(match[1]))
	separated := strings.TrimSpace(match[2]) != "" || strings.Contains(match[4], "{")
	if !separated || lettersBeside(word, "pglock")+lettersBeside("pglock", word) > 2 {
		return nil
	}
	return fmt.Errorf("%q is misspelled, so it would be ignored: write \"-- pglock: %s %s\"", strings.TrimSpace(comment),
		strings.ToLower(match[3]), strings.TrimSpace(match[4]))
}

// lettersBeside is how many letters a word has beside those of another.
func lettersBeside(word, other string) (n int) {
	for _, letter := range word {
		if before := len(other); strings.ContainsRune(other, letter) {
			other = strings.Replace(other, string(letter), "", 1)
		} else if before == len(other) {
			n++
		}
	}
	return n
}

// parseKey reads "invoice:{id bigint} func=Invoice -- one invoice".
func parseKey(text string) (k key, err error) {
	text, k.doc, _ = strings.Cut(text+" ", " -- ")
	k.doc = strings.TrimSpace(k.doc)
	template, rest := keytemplate.CutTemplate(text)
	if k.template, err = keytemplate.Parse(template); err != nil {
		return k, err
	}
	k.function = functionName(k.template)
	for _, option := range strings.Fields(rest) {
		name, function, _ := strings.Cut(option, "=")
		if name != "func" || function == "" {
			return k, fmt.Errorf("%s: unknown option %q: a key's one option is func=Name; a description follows --", k.template, option)
		}
		k.function = function
	}
	return k, nil
}
