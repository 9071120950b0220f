package lockgen

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
)

// project is the content of the SQL.
type project struct {
	Options
	keys     []*key // sorted by their functions
	queries  []*query
	problems problems

	byText map[string]*key
}

// key is a template with its attributes.
type key struct {
	keyDirective
	at       Position
	declared bool // declared by a directive, not by its first use
	users    []string
	shared   map[string]bool // by user; true if it takes the key only shared
}

// query is a query with its locks.
type query struct {
	Query
	locks []keytemplate.Lock // resolved: the types and numbers of parameters are known
}

// use is one lock of a query.
type use struct {
	query *query
	lock  keytemplate.Lock
	at    Position
}

// read makes keys and queries from the input: first the declared keys, wherever they are, then the locks.
func (p *project) read(in Input) {
	p.byText = map[string]*key{}
	var uses []use
	for _, c := range in.Comments {
		p.readComment(nil, c, &uses)
	}
	names := map[string]bool{}
	for i := range in.Queries {
		q := &query{Query: in.Queries[i]}
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
		p.use(u)
	}
	p.checkLocks(uses)
}

func (p *project) readComment(q *query, c Comment, uses *[]use) {
	verb, rest, ok, err := cutDirective(c.Text)
	if err != nil {
		p.problems.add(c.At, "%v", err)
	}
	if !ok || strings.TrimRight(verb, ":,;") == "allow" { // that speaks to pglock vet
		return
	}
	if c.Inline {
		p.problems.add(c.At, "the comment %q does not begin its line, or spans several lines: such comments are ignored, "+
			"so write %q on a separate line", strings.TrimSpace(c.Text), correct(verb, rest))
		return
	}
	if !keytemplate.Visible(strings.ReplaceAll(rest, "\t", " ")) {
		p.problems.add(c.At, "pglock: %s %q contains invisible characters", verb, rest)
		return
	}
	switch verb {
	case "key":
		p.declare(rest, c.At)
	case "lock":
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
	directive, err := parseKey(text)
	if err != nil {
		p.problems.add(at, "key %v", err)
		return
	}
	name := directive.template.String()
	if other := p.byText[name]; other != nil {
		first, second := other.at, at
		if first.File == second.File && first.Line > second.Line { // comments above queries are read last
			first, second = second, first
		}
		p.problems.add(second, "key %s is already declared at %s: declare a template once", name, first)
		return
	}
	p.add(&key{keyDirective: directive, at: at, declared: true})
}

func (p *project) add(k *key) {
	k.shared = map[string]bool{}
	p.keys = append(p.keys, k)
	p.byText[k.template.String()] = k
}

// use resolves a lock's parameters to those of its query, and its template to a key. It declares the key of an unknown
// template.
func (p *project) use(u use) {
	if !p.checkUntyped(u) {
		return
	}
	lock, ok := p.resolve(u)
	if !ok {
		return
	}
	k := p.byText[lock.Template.String()]
	if k == nil {
		k = &key{keyDirective: keyDirective{template: lock.Template, low: 1}, at: u.at}
		p.add(k)
	}
	if !p.agree(k, lock, u) {
		return
	}
	if !slices.Contains(k.users, u.query.Name) {
		k.users, k.shared[u.query.Name] = append(k.users, u.query.Name), true
	}
	k.shared[u.query.Name] = k.shared[u.query.Name] && lock.Shared
	u.query.locks = append(u.query.locks, lock)
}

// agree gives the key the types of the lock, or reports why it cannot.
func (p *project) agree(k *key, lock keytemplate.Lock, u use) bool {
	fits := true
	uses := lock.Params()
	i := 0
	template := k.template.WithParams(func(param keytemplate.Param) keytemplate.Param {
		used := uses[i].Type
		i++
		wide, ok := keytemplate.Widest(param.Type, used)
		switch {
		case !ok, k.declared && wide != param.Type:
			fits = false
			p.problems.add(u.at, "lock %s: {%s} is %s here and %s at %s: cast the query's parameter, or declare the key "+
				"with a type that fits both", lock.Template, param.Name, used, param.Type, k.at)
		default:
			param.Type = wide
		}
		param.Source, param.Array = param.Name, false
		return param
	})
	if fits {
		k.template = template
	}
	return fits
}

// resolve gives each parameter of a lock the number and the type of the query's parameter.
func (p *project) resolve(u use) (keytemplate.Lock, bool) {
	lock, good := u.lock, true
	if u.query.Command == ":copyfrom" {
		p.problems.add(u.at, "lock %s: query %s is :copyfrom, and a lock cannot be sent with COPY: "+
			"take the lock first, with pglock.LockTx", lock, u.query.Name)
		return lock, false
	}
	declared := p.byText[lock.Template.String()]
	lock.Template = lock.WithParams(func(param keytemplate.Param) keytemplate.Param {
		resolved, err := p.resolveParam(u.query, param, declared)
		if err != nil {
			good = false
			p.problems.add(u.at, "lock %s: {%s}: %v", lock.Template, param.Name, err)
		}
		return resolved
	})
	if good {
		if err := lock.Check(); err != nil {
			good = false
			p.problems.add(u.at, "lock %s: %v", lock.Template, err)
		}
	}
	return lock, good
}

// resolveParam finds the parameter of the query. Its type is the query's if that is known, and else the key's.
func (p *project) resolveParam(q *query, param keytemplate.Param, declared *key) (keytemplate.Param, error) {
	found, err := q.param(param)
	if err != nil {
		return param, err
	}
	param.Source = fmt.Sprintf("$%d", found.Number)
	given := param.Type
	if q.Untyped {
		return typeOf(param, declared)
	}
	param.Array = found.Dims == 1 || found.Slice
	if param.Type, err = keytemplate.ParseType(found.Type); err != nil {
		return param, found.unusable(err)
	}
	switch {
	case found.Nullable:
		return param, fmt.Errorf("query %[1]s may get NULL for it, and a lock's name needs a value: "+
			"use @%[2]s (not sqlc.narg), and cast it (@%[2]s::%[3]s) if the column is nullable",
			q.Name, found.Name, found.cast())
	case found.Dims > 1:
		return param, errors.New("it is an array of arrays: use a one-dimensional array")
	case found.Slice && (p.SQLPackage == DatabaseSQL || !q.isArray(found)):
		return param, fmt.Errorf("it is a sqlc.slice, which is an array only for pgx, as the argument of ANY: write = ANY(@%s::%s)",
			found.Name, found.cast())
	}
	if _, ok := keytemplate.Widest(given, param.Type); !ok {
		return param, fmt.Errorf("its type is %s, not %s", param.Type, given)
	}
	return param, nil
}

// cast is the type to which a parameter is cast.
func (p Param) cast() string {
	cast := strings.TrimPrefix(p.Type, "pg_catalog.")
	if p.Slice || p.Dims == 1 {
		cast += "[]"
	}
	return cast
}

// noEnums are types of PostgreSQL as a schema names them.
var noEnums = strings.Fields(`bit bpchar bytea char cidr citext date decimal float float4 float8 inet interval json jsonb
	macaddr money numeric real time timestamp timetz varbit xml`)

// unusable adds to the error of a type how to write the parameter, if the type may be an enum, and what that does about NULL.
// sqlc reads two casts that follow each other only if parentheses part them.
func (p Param) unusable(err error) error {
	if strings.HasPrefix(p.Type, "pg_catalog.") || slices.Contains(noEnums, p.Type) {
		return err
	}
	array := strings.TrimPrefix(p.cast(), p.Type)
	err = fmt.Errorf("%w; if it is an enum, write (@%s::text%s)::%s", err, p.Name, array, p.cast())
	if p.Nullable {
		err = fmt.Errorf("%w, which also keeps NULL away, of which no name can be made", err)
	}
	return err
}

// isArray reports whether sqlc passes a slice as it is, as an array.
func (q *query) isArray(slice Param) bool {
	array := regexp.MustCompile(fmt.Sprintf(`(?i)\b(?:any|all)\s*\(\s*\$%d\b`, slice.Number))
	return array.MatchString(withoutTexts(q.SQL))
}

func typeOf(param keytemplate.Param, declared *key) (keytemplate.Param, error) {
	if declared != nil && param.Type == keytemplate.Unknown {
		for _, p := range declared.template.Params() {
			if p.Name == param.Name {
				param.Type = p.Type
			}
		}
	}
	if param.Type == keytemplate.Unknown {
		return param, fmt.Errorf("it has no type: write {%s=%s bigint}, or declare the key", param.Name, param.Source)
	}
	return param, nil
}

// param finds the query's parameter for a template's parameter.
func (q *query) param(want keytemplate.Param) (Param, error) {
	var found []Param
	var names []string
	number, byNumber := want.Number()
	for _, p := range q.Params {
		if (byNumber && p.Number == number) || (!byNumber && p.Name == want.Source) {
			found = append(found, p)
		}
		names = append(names, fmt.Sprintf("$%d %s", p.Number, p.Name))
	}
	glued := q.gluedTo(want.Source)
	switch {
	case len(found) == 1:
		return found[0], nil
	case glued != "":
		return Param{}, fmt.Errorf("query %s has no parameter %s: PostgreSQL reads %s as one operator, so write a space before @%[2]s",
			q.Name, want.Source, glued)
	case len(found) > 1:
		return Param{}, fmt.Errorf("query %s has several parameters %s: write a number, as in {%s=$%d}",
			q.Name, want.Source, want.Name, found[0].Number)
	case len(names) == 0:
		return Param{}, fmt.Errorf("query %s has no parameters", q.Name)
	}
	return Param{}, fmt.Errorf("query %s has no parameter %s; it has %s (write {%s=other} if it has another name)",
		q.Name, want.Source, strings.Join(names, ", "), want.Name)
}

var gluedParam = regexp.MustCompile(`([-+*/<>=~!#%^&|?` + "`" + `]+@)(\w+)`)

// gluedTo returns the operator that PostgreSQL's lexer makes from an @ and the characters before it, as
// in id=@id.
func (q *query) gluedTo(param string) (operator string) {
	for _, match := range gluedParam.FindAllStringSubmatch(withoutTexts(q.SQL), -1) {
		if match[2] == param {
			return match[1]
		}
	}
	return ""
}

// checkLocks checks the options of each query's locks, some of which must be the same for all of
// them.
func (p *project) checkLocks(uses []use) {
	first := map[*query]use{}
	for _, u := range uses {
		before, ok := first[u.query]
		if !ok {
			first[u.query] = u
			continue
		}
		a, b := before.lock, u.lock
		if a.Try != b.Try || a.Savepoint != b.Savepoint || (a.MaxWait == nil) != (b.MaxWait == nil) ||
			(a.MaxWait != nil && *a.MaxWait != *b.MaxWait) {
			p.problems.add(u.at, "the locks of query %s differ in try, max_wait or savepoint (the other is at %s): "+
				"give all of them the same; only shared can differ", u.query.Name, before.at)
		}
	}
}
