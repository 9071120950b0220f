package lockgen

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
)

// project is what the SQL declares.
type project struct {
	Input
	keys     []*key
	byText   map[string]*key // by their templates without types
	queries  []*query
	problems problems
}

// key is a declared key.
type key struct {
	template keytemplate.Template
	function string
	doc      string
	at       Position
	users    []string // the queries that take it
}

// query is a query with its locks, whose parameters have the numbers of the query's.
type query struct {
	Query
	locks []keytemplate.Lock
}

// use is a lock of a query, as it is written.
type use struct {
	query *query
	lock  keytemplate.Lock
	at    Position
}

// read makes keys and queries from the input: first the keys, wherever they are declared, then the locks.
func (p *project) read() {
	var uses []use
	for _, c := range p.Comments {
		p.readComment(nil, c, &uses)
	}
	names := map[string]bool{}
	for _, given := range p.Input.Queries {
		q := &query{Query: given}
		p.queries = append(p.queries, q)
		if names[q.Name] {
			p.problems.add(q.At, "there are two queries %s: locks are looked up by the name of the query", q.Name)
		}
		names[q.Name] = true
		p.checkSQL(q)
		for _, c := range q.Comments {
			p.readComment(q, c, &uses)
		}
	}
	for _, u := range uses {
		if p.problems.full() {
			return
		}
		p.use(u)
	}
}

func (p *project) readComment(q *query, c Comment, uses *[]use) {
	verb, rest, ok, err := cutDirective(c.Text)
	switch {
	case err != nil:
		p.problems.add(c.At, "%v", err)
	case !ok:
	case c.Inline:
		p.problems.add(c.At, "the comment %q does not begin its line, or spans several lines, so it would be ignored: "+
			"write it on a separate line", strings.TrimSpace(c.Text))
	case !keytemplate.Visible(strings.ReplaceAll(rest, "\t", " ")):
		p.problems.add(c.At, "pglock: %s %q contains invisible characters", verb, rest)
	case verb == "key":
		p.declare(rest, c.At)
	case verb == "lock":
		lock, err := keytemplate.ParseLock(rest)
		switch {
		case err != nil:
			p.problems.add(c.At, "lock %v", err)
		case q == nil:
			p.problems.add(c.At, "lock %s belongs to no query: write it above a query, after the ; of the previous one", lock)
		default:
			*uses = append(*uses, use{q, lock, c.At})
		}
	default:
		p.problems.add(c.At, "pglock: %q is neither key nor lock", verb)
	}
}

func (p *project) declare(text string, at Position) {
	k, err := parseKey(text)
	if err != nil {
		p.problems.add(at, "key %v", err)
		return
	}
	k.at = at
	name := k.template.String()
	if other := p.byText[name]; other != nil {
		p.problems.add(at, "key %s is declared at %s, too: declare it once", name, other.at)
		return
	}
	p.keys, p.byText[name] = append(p.keys, &k), &k
}

// use gives a query its lock.
func (p *project) use(u use) {
	name := u.lock.Template.String()
	k := p.byText[name]
	switch {
	case k == nil:
		p.problems.add(u.at, "lock %s is of no key: %s", name, p.cure(u.lock))
		return
	case u.query.Command == ":copyfrom":
		p.problems.add(u.at, "lock %s: query %s is :copyfrom, and a lock cannot be sent with COPY: "+
			"take the lock first, with pglock.LockTx", name, u.query.Name)
		return
	}
	for i, param := range u.lock.Params() {
		resolved, err := u.query.resolve(param, k.template[i].Type)
		if err != nil {
			p.problems.add(u.at, "lock %s: {%s}: %v", name, param.Param, err)
		}
		u.lock.Template[i] = resolved
	}
	if locks := u.query.locks; len(locks) > 0 && locks[0].Options != u.lock.Options {
		p.problems.add(u.at, "the locks of query %s differ in try or max_wait: give all of them the same; "+
			"only shared can differ", u.query.Name)
	}
	u.query.locks = append(u.query.locks, u.lock)
	user := u.query.Name
	if u.lock.Shared {
		user += " (shared)"
	}
	if !slices.Contains(k.users, user) {
		k.users = append(k.users, user)
	}
}

// cure says what to write instead of a lock that is of no key.
func (p *project) cure(lock keytemplate.Lock) string {
	for _, k := range p.keys {
		renamed := slices.Clone(lock.Template)
		for i := range min(len(renamed), len(k.template)) {
			renamed[i].Param = k.template[i].Param
		}
		if renamed.String() == k.template.String() {
			lock.Template = renamed
			return "its parameters have other names there, so write " + lock.String()
		}
	}
	return "if it is misspelled, correct it; if it is meant, declare it, as in -- pglock: key " +
		strings.ReplaceAll(lock.Template.String(), "}", " bigint}")
}

// resolve gives a parameter of a lock the number of the query's parameter, if that has a type which the key's includes.
func (q *query) resolve(param keytemplate.Part, want keytemplate.Type) (keytemplate.Part, error) {
	found, err := q.param(param)
	if err != nil {
		return param, err
	}
	param.Source = fmt.Sprintf("$%d", found.Number)
	if found.Type == "" {
		return param, nil
	}
	param.Array = found.Dims == 1 || found.Slice
	got, err := keytemplate.ParseType(found.Type)
	switch {
	case err != nil:
		return param, err
	case found.Nullable:
		return param, fmt.Errorf("query %[1]s may get NULL for it, and a lock's name needs a value: "+
			"use @%[2]s (not sqlc.narg), and cast it (@%[2]s::%[3]s) if the column is nullable", q.Name, found.Name, want)
	case !want.Includes(got):
		return param, fmt.Errorf("it is %s here, and %s in the key: cast it (@%s::%[2]s), or declare the key with a type that fits",
			got, want, found.Name)
	case found.Dims > 1:
		return param, errors.New("it is an array of arrays: use a one-dimensional array")
	case found.Slice && !q.isArray(found):
		return param, fmt.Errorf("it is a sqlc.slice, which is an array only as the argument of ANY: write = ANY(@%s::%s[])",
			found.Name, want)
	}
	return param, nil
}

// isArray reports whether sqlc passes a slice as it is, as an array.
func (q *query) isArray(slice Param) bool {
	array := regexp.MustCompile(fmt.Sprintf(`(?i)\b(?:any|all)\s*\(\s*\$%d\b`, slice.Number))
	return array.MatchString(withoutTexts(q.SQL))
}

// param finds the query's parameter for a lock's parameter.
func (q *query) param(want keytemplate.Part) (Param, error) {
	var found []Param
	var names []string
	number, byNumber := want.Number()
	for _, p := range q.Params {
		if (byNumber && p.Number == number) || (!byNumber && p.Name == want.Source) {
			found = append(found, p)
		}
		names = append(names, strings.TrimSpace(fmt.Sprintf("$%d %s", p.Number, p.Name)))
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return Param{}, fmt.Errorf("query %s has several parameters %s: write a number, as in {%s=$%d}",
			q.Name, want.Source, want.Param, found[0].Number)
	case len(names) == 0:
		return Param{}, fmt.Errorf("query %s has no parameters (PostgreSQL reads =@ as one operator: write a space before @)", q.Name)
	}
	return Param{}, fmt.Errorf("query %s has no parameter %s; it has %s (write {%s=other} if it has another name)",
		q.Name, want.Source, strings.Join(names, ", "), want.Param)
}
