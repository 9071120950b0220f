package lockgen

import (
	"go/token"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
)

// checkKeys finds keys that could have the same name, or have the same function.
func (p *project) checkKeys() {
	taken := p.taken()
	for i, k := range p.keys {
		name := strings.ToLower(k.function)
		const instead = ": give it another name, with -- pglock: key %s func=Name"
		switch other := taken[name]; {
		case !token.IsIdentifier(k.function) || !token.IsExported(k.function):
			p.problems.add(k.at, "key %s: %q is not the name of an exported function"+instead, k.template, k.function, k.template.Declaration())
		case other != "":
			p.problems.add(k.at, "key %s: the package has a function or constant %s of %s"+instead, k.template, k.function, other, k.template.Declaration())
		}
		taken[name] = "key " + k.template.String()
		for _, other := range p.keys[:i] {
			if p.problems.full() {
				return
			}
			if keytemplate.Conflict(k.template, other.template) {
				p.problems.add(k.at, "%s and %s (at %s) could make the same name: begin one of them with different text; "+
					"if they are the same lock, declare it once, and map its parameter, as in {id=other}", k.template, other.template, other.at)
			}
		}
	}
}

// taken returns the names of the package's other declarations, in lower case.
func (p *project) taken() map[string]string {
	names := map[string]string{"tx": "its own", "label": "its own"}
	for _, q := range p.queries {
		if p.Texts {
			names[strings.ToLower(textName(q.Name))] = "query " + q.Name
		}
	}
	return names
}

// functionName joins the words of the template's text: Invoice for invoice:{id}, NightlyReport for nightly-report.
func functionName(t keytemplate.Template) string {
	var texts []string
	for _, p := range t {
		texts = append(texts, p.Text)
	}
	words := strings.FieldsFunc(strings.Join(texts, " "), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i, word := range words {
		words[i] = capitalized(word)
	}
	return strings.Join(words, "")
}

var initialisms = []string{"id", "url", "api", "uuid", "sql", "http"}

func capitalized(word string) string {
	if slices.Contains(initialisms, strings.ToLower(word)) {
		return strings.ToUpper(word)
	}
	first, size := utf8.DecodeRuneInString(word)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + word[size:]
}

// sessionFunctions are the functions whose locks outlive their transaction.
var sessionFunctions = regexp.MustCompile(`(?i)\bpg_(try_)?advisory_(lock|unlock)\w*`)

// checkSQL refuses a query that takes a lock of the session, and directives inside its text.
func (p *project) checkSQL(q *query) {
	if called := sessionFunctions.FindString(withoutTexts(q.SQL)); called != "" {
		p.problems.add(q.At, "query %s calls %s, whose lock outlives the transaction and is orphaned behind a pooler: "+
			"write -- pglock: lock name:{id} above a query, or use a pglock.Locker", q.Name, called)
	}
	if q.At.Line == 0 { // otherwise the front end has found them
		for _, c := range inlineComments(q.At.File, q.SQL) {
			c.At = q.At
			p.readComment(q, c, nil)
		}
	}
}
