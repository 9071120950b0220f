package lockgen

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
)

// keyDirective is "key invoice:{id bigint} owner=billing func=Invoice names=1..1000 -- one invoice".
type keyDirective struct {
	template  keytemplate.Template
	function  string
	owner     string
	doc       string
	low, high int64 // of names=; high is below low if it is not given
}

// mark begins directives. Case and space do not matter.
var mark = regexp.MustCompile(`(?i)^\s*` + marker + `\s*:\s*(\S*)\s*(.*?)\s*$`)

// cutDirective returns the verb of a directive and the rest; ok is false for other comments. A misspelled directive is an
// error.
func cutDirective(comment string) (verb, rest string, ok bool, err error) {
	match := mark.FindStringSubmatch(comment)
	if match == nil {
		return "", "", false, checkSpelling(comment)
	}
	return strings.ToLower(match[1]), match[2], true, nil
}

// IsDirective reports whether a comment is a directive, or looks like one.
func IsDirective(comment string) bool {
	_, _, ok, err := cutDirective(comment)
	return ok || err != nil
}

func parseKey(text string) (k keyDirective, err error) {
	text, k.doc, _ = strings.Cut(text+" ", " -- ")
	k.doc = strings.TrimSpace(k.doc)
	template, rest := keytemplate.CutTemplate(text)
	if k.template, err = keytemplate.Parse(template); err != nil {
		return k, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", k.template, err)
		}
	}()
	for _, p := range k.template.Params() {
		switch {
		case p.Source != p.Name:
			return k, fmt.Errorf("{%s=%s}: a key declares its own parameters: {%s bigint}; = is for locks",
				p.Name, p.Source, p.Name)
		case p.Array:
			return k, fmt.Errorf("{%s %s[]}: a key is one lock: write {%s %s}; a lock's argument may be an array",
				p.Name, p.Type, p.Name, p.Type)
		case p.Type == keytemplate.Unknown:
			return k, fmt.Errorf("{%s} has no type: write {%s bigint}", p.Name, p.Name)
		}
	}
	k.low, k.high = 1, 0
	for _, option := range strings.Fields(rest) {
		if err := k.set(option); err != nil {
			return k, err
		}
	}
	return k, nil
}

func (k *keyDirective) set(option string) error {
	name, value, _ := strings.Cut(option, "=")
	switch {
	case name == "owner" && value != "":
		k.owner = value
	case name == "func" && value != "":
		k.function = value
	case name == "names" && value != "":
		return k.setNames(value)
	default:
		return fmt.Errorf("unknown option %q: the options of a key are owner=team, func=Name and names=1..1000; "+
			"a description follows --", option)
	}
	return nil
}

// mostNames equals monitor.MaxNames.
const mostNames = 1_000_000

func (k *keyDirective) setNames(value string) error {
	low, high, _ := strings.Cut(value, "..")
	var errLow, errHigh error
	k.low, errLow = strconv.ParseInt(low, 10, 64)
	k.high, errHigh = strconv.ParseInt(high, 10, 64)
	switch {
	case errLow != nil || errHigh != nil || k.low < 0 || k.high < k.low:
		return fmt.Errorf("names=%s: want a range of numbers, such as names=1..1000", value)
	case k.high-k.low >= mostNames:
		return fmt.Errorf("names=%s: the monitor reads at most %d names", value, mostNames)
	case !hasOneInteger(k.template):
		return fmt.Errorf("names=%s: only the names of a key with one integer can be listed", value)
	}
	return nil
}

// hasOneInteger reports whether the template has one parameter, an integer.
func hasOneInteger(t keytemplate.Template) bool {
	params := t.Params()
	return len(params) == 1 && params[0].Type.IsInteger()
}
