package lockgen

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
	"github.com/pglock-toolkit/pglock/pglock/querylock"
)

func (p *project) queriesGo() string {
	var s source
	s.WriteString(p.head("//"))
	s.printf("package %s\n\nimport (\n", p.Package)
	if slices.ContainsFunc(p.queries, (*query).bounded) {
		s.WriteString("\"time\"\n\n")
	}
	s.WriteString(`"github.com/pglock-toolkit/pglock/pglock/querylock"
)

// If this is unknown, the module pglock is older than the generator: update it.
const _ = querylock.Version1

`)
	var templates []string
	if len(p.keys) > 0 {
		s.WriteString("// The templates of keys.\nvar (\n")
		for _, k := range p.keys {
			s.WriteString(k.templateGo())
			templates = append(templates, k.variable()+",\n")
		}
		s.WriteString(")\n\n")
	}
	s.printf("// queries has all templates, and all queries of the project with their locks.\n"+
		"var queries = querylock.NewSet(\n[]querylock.Template{\n%s},\n[]querylock.Query{\n", strings.Join(templates, ""))
	for _, q := range p.queries {
		s.printf("{Name: %q, Digest: %q%s},\n", q.Name, querylock.Digest(q.Text), p.locksGo(q))
	}
	s.WriteString("},\n)\n")
	return s.String()
}

// templateGo declares the template. It has one part for each parameter, with the text before it.
func (k *key) templateGo() string {
	var parts []string
	text := ""
	k.template.Pieces(
		func(literal string) { text = fmt.Sprintf("Text: %q", literal) },
		func(p *keytemplate.Param) {
			if text != "" {
				text += ", "
			}
			parts = append(parts, fmt.Sprintf("{%sParam: %q, Type: querylock.%s}", text, p.Name, goTypes[p.Type].constant))
			text = ""
		},
	)
	if text != "" {
		parts = append(parts, "{"+text+"}")
	}
	if len(parts) == 1 {
		return fmt.Sprintf("%s = querylock.Template{%s}\n", k.variable(), parts[0])
	}
	return fmt.Sprintf("%s = querylock.Template{\n%s,\n}\n", k.variable(), strings.Join(parts, ",\n"))
}

func (q *query) bounded() bool { return len(q.locks) > 0 && q.locks[0].MaxWait != nil }

// locksGo are the fields of a query with its locks, which agree in all but Shared.
func (p *project) locksGo(q *query) string {
	if len(q.locks) == 0 {
		return ""
	}
	var s source
	first := q.locks[0]
	if first.Try {
		s.WriteString(", Try: true")
	}
	if first.MaxWait != nil {
		s.printf(", MaxWait: %s", durationGo(*first.MaxWait))
	}
	if first.Savepoint {
		s.WriteString(", Savepoint: true")
	}
	s.WriteString(", Locks: []querylock.Lock{\n")
	for _, lock := range q.locks {
		s.printf("{Key: %s%s},\n", p.byText[lock.Template.String()].variable(), argsGo(lock))
	}
	s.WriteString("}")
	return s.String()
}

// argsGo are the fields of a lock after its key.
func argsGo(lock keytemplate.Lock) string {
	var args []string
	fields := ""
	for i, param := range lock.Params() {
		n, _ := param.Number()
		args = append(args, strconv.Itoa(n))
		if param.Array {
			fields = fmt.Sprintf(", Each: %d", i+1)
		}
	}
	if len(args) > 0 {
		fields = fmt.Sprintf(", Args: []int{%s}", strings.Join(args, ", ")) + fields
	}
	if lock.Shared {
		fields += ", Shared: true"
	}
	return fields
}

func durationGo(d time.Duration) string {
	switch {
	case d%time.Second == 0:
		return fmt.Sprintf("%d * time.Second", d/time.Second)
	case d%time.Millisecond == 0:
		return fmt.Sprintf("%d * time.Millisecond", d/time.Millisecond)
	}
	return fmt.Sprintf("%d * time.Nanosecond", d)
}
