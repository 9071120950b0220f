package lockgen

import (
	"go/token"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
	"github.com/pglock-toolkit/pglock/pglock"
)

// keyNumber returns the number of a name, which no two names may share; a test replaces it.
var keyNumber = func(name string) int64 { return pglock.NewKey(name).Int64() }

// checkKeys finds keys with the same name, number or function.
func (p *project) checkKeys() {
	functions, numbers, taken := map[string]*key{}, map[int64]*key{}, p.taken()
	inSQL := map[string]*key{}
	for _, k := range p.keys {
		if k.function == "" {
			k.function = functionName(k.template)
		}
		p.checkFunction(k, functions, taken)
		p.checkInSQL(k, inSQL)
		if name := k.template.String(); len(k.template.Params()) == 0 {
			if other := numbers[keyNumber(name)]; other != nil {
				p.problems.add(k.at, "%s and %s (at %s) are different names of one lock, whose number is %d: change one of them",
					name, other.template, other.at, keyNumber(name))
			}
			numbers[keyNumber(name)] = k
		}
	}
	p.checkConflicts()
}

// checkConflicts compares keys whose texts begin alike: they follow each other when sorted by prefix.
func (p *project) checkConflicts() {
	order := make([]int, len(p.keys))
	for i := range order {
		order[i] = i
	}
	prefix := func(i int) string { return p.keys[i].template.Prefix() }
	slices.SortStableFunc(order, func(i, j int) int { return strings.Compare(prefix(i), prefix(j)) })
	for n, i := range order {
		for _, j := range order[n+1:] {
			if !strings.HasPrefix(prefix(j), prefix(i)) {
				break
			}
			k, other := p.keys[max(i, j)], p.keys[min(i, j)]
			if name, ok := keytemplate.Conflict(other.template, k.template); ok {
				p.problems.add(k.at, "%s and %s (at %s) can both make the name %q: begin one of them with different text; "+
					"if they are the same lock, write it once and map the parameter, as in {%s=other}",
					k.template, other.template, other.at, name, firstParam(other.template, k.template))
			}
		}
	}
}

func firstParam(templates ...keytemplate.Template) string {
	for _, t := range templates {
		if params := t.Params(); len(params) > 0 {
			return params[0].Name
		}
	}
	return "id"
}

// taken returns the names of the package's other declarations.
func (p *project) taken() []string {
	names := []string{"Tx", "Label"}
	for _, q := range p.queries {
		if p.Texts {
			names = append(names, textName(q.Name))
		}
	}
	return names
}

func (p *project) checkFunction(k *key, seen map[string]*key, taken []string) {
	name := k.function
	switch other := seen[strings.ToLower(name)]; {
	case !token.IsIdentifier(name) || !token.IsExported(name):
		p.problems.add(k.at, "key %s: %q is not the name of an exported function: give it one, with "+
			"-- pglock: key %s func=Name", k.template, name, k.template.Declaration())
	case contains(taken, name):
		p.problems.add(k.at, "key %s: the package has another %s: give the key another name, with "+
			"-- pglock: key %s func=Name", k.template, name, k.template.Declaration())
	case other != nil:
		p.problems.add(k.at, "keys %s and %s (at %s) would both be function %s: give one of them another name, with "+
			"-- pglock: key %s func=Name", k.template, other.template, other.at, name, k.template.Declaration())
	default:
		seen[strings.ToLower(name)] = k
	}
}

// Bounds of PostgreSQL: it cuts off the rest of a longer name, and refuses more parameters of a function.
const (
	maxSQLName   = 63
	maxSQLParams = 100
)

// checkInSQL finds functions that would not be in the database as declared.
func (p *project) checkInSQL(k *key, seen map[string]*key) {
	name, params := snake(k.function), k.template.Params()
	long := func(p *keytemplate.Param) bool { return len(p.Name) > maxSQLName }
	switch other := seen[name]; {
	case len(name) > maxSQLName || slices.ContainsFunc(params, long):
		p.problems.add(k.at, "key %s: PostgreSQL's names have at most %d bytes: choose a shorter name for the function "+
			"(func=Name) or the parameter", k.template, maxSQLName)
	case len(params) > maxSQLParams:
		p.problems.add(k.at, "key %s has %d parameters: a function of PostgreSQL has at most %d", k.template, len(params), maxSQLParams)
	case strings.HasPrefix(name, "pglock_"):
		p.problems.add(k.at, "key %s: functions that begin with pglock_ in SQL are the generator's own: give the key another "+
			"name, with -- pglock: key %s func=Name", k.template, k.template.Declaration())
	case other != nil && !strings.EqualFold(k.function, other.function): // otherwise it is reported already
		p.problems.add(k.at, "keys %s and %s (at %s) would both be function %s in SQL: give one of them another name, with "+
			"-- pglock: key %s func=Name", k.template, other.template, other.at, name, k.template.Declaration())
	default:
		seen[name] = k
	}
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// functionName joins the words of the template's text: Invoice for invoice:{id}, NightlyReport for
// nightly-report.
func functionName(t keytemplate.Template) string {
	var text strings.Builder
	t.Pieces(func(literal string) { text.WriteString(literal) }, func(*keytemplate.Param) { text.WriteString(" ") })
	words := strings.FieldsFunc(text.String(), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	var name strings.Builder
	for _, word := range words {
		name.WriteString(capitalized(word))
	}
	return name.String()
}

var initialisms = map[string]string{"id": "ID", "url": "URL", "api": "API", "uuid": "UUID", "sql": "SQL", "http": "HTTP"}

func capitalized(word string) string {
	if initialism := initialisms[strings.ToLower(word)]; initialism != "" {
		return initialism
	}
	first := []rune(word)[:1]
	return string(unicode.ToUpper(first[0])) + word[len(string(first)):]
}

// sessionFunctions are the functions whose locks outlive their transaction.
var sessionFunctions = regexp.MustCompile(`(?i)\bpg_(try_)?advisory_(lock|unlock)\w*`)

// checkSQL refuses what a lock of a query cannot be combined with, and directives that would be ignored.
func (p *project) checkSQL(q *query) {
	plain := withoutTexts(q.SQL)
	if called := sessionFunctions.FindString(plain); called != "" {
		p.problems.add(q.At, "query %s calls %s, whose lock outlives the transaction and is orphaned behind a pooler: "+
			"write -- pglock: lock name:{id} above a query, or use a pglock.Locker", q.Name, called)
	}
	if q.At.Line == 0 { // otherwise the front end has found them
		for _, c := range InlineComments(q.At.File, q.SQL) {
			c.At = q.At
			p.readComment(q, c, nil)
		}
	}
}
