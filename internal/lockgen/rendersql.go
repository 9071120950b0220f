package lockgen

import (
	_ "embed"
	"fmt"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
	"github.com/pglock-toolkit/pglock/pglock"
)

//go:embed functions.sql
var functionsSQL string

// functionsSQL writes a function for each key, and those of functions.sql that they need.
func (p *project) functionsSQL() string {
	var s source
	s.WriteString(p.head("--"))
	var needed []string
	for _, section := range strings.Split(strings.TrimSpace(functionsSQL), "\n\n") {
		if p.needs(section) {
			needed = append(needed, section)
		}
	}
	schema := sqlName(p.SQLSchema)
	names := strings.NewReplacer("SCHEMA_NAME", schema, "SCHEMA_TEXT", sqlText(p.SQLSchema), "EXAMPLE_CALL", p.exampleCall())
	s.printf("%s\n", names.Replace(strings.Join(needed, "\n\n")))
	for _, k := range p.keys {
		s.WriteString(k.functionSQL(schema))
	}
	s.WriteString("\nPERFORM set_config('search_path', path, true);\nEND\n$pglock$;\n")
	return s.String()
}

// exampleCall calls the function of one of the keys.
func (p *project) exampleCall() string {
	for _, k := range p.keys {
		switch {
		case hasOneInteger(k.template):
			return sqlName(snake(k.function)) + "(42)"
		case len(k.template.Params()) == 0:
			return sqlName(snake(k.function)) + "()"
		}
	}
	return "invoice(42)"
}

var helper = regexp.MustCompile(`FUNCTION SCHEMA_NAME\.pglock_(?:value\(value (?:pg_catalog\.)?(\w+)\)|key)`)

// needs reports whether the keys need a section of functions.sql.
func (p *project) needs(section string) bool {
	match := helper.FindStringSubmatch(section)
	switch {
	case match == nil:
		return true
	case match[1] == "":
		return len(p.keys) > 0
	}
	return slices.ContainsFunc(p.keys, func(k *key) bool {
		return slices.ContainsFunc(k.template.Params(), func(param *keytemplate.Param) bool {
			return match[1] == param.Type.String() || (match[1] == "bigint" && param.Type.IsInteger())
		})
	})
}

func (k *key) functionSQL(schema string) string {
	var s source
	var params, types, parts []string
	k.template.Pieces(
		func(text string) { parts = append(parts, sqlText(text)) },
		func(p *keytemplate.Param) {
			params = append(params, sqlName(p.Name)+" "+sqlType(p.Type))
			types = append(types, sqlType(p.Type))
			parts = append(parts, fmt.Sprintf("%s.pglock_value($%d%s)", schema, len(params), castSQL(p.Type)))
		},
	)
	function := fmt.Sprintf("%s.%s", schema, sqlName(snake(k.function)))
	s.printf("\nCREATE OR REPLACE FUNCTION %s(%s) RETURNS bigint\n", function, strings.Join(params, ", "))
	// An array, since a call has at most 100 arguments. The types are exact, so that no other function fits better.
	s.printf("LANGUAGE sql IMMUTABLE PARALLEL SAFE\nAS $body$\n    SELECT %s.pglock_key(VARIADIC ARRAY[%s]::pg_catalog.text[])\n$body$;\n",
		schema, strings.Join(parts, ", "))
	about := "The key " + k.template.String()
	if k.doc != "" {
		about += ": " + k.doc
	}
	s.printf("COMMENT ON FUNCTION %s(%s) IS %s;\n", function, strings.Join(types, ", "), sqlText(about))
	return s.String()
}

func castSQL(t keytemplate.Type) string {
	if t.IsInteger() && t != keytemplate.BigInt {
		return "::bigint"
	}
	return ""
}

// sqlType is the type's name as no search_path can change it.
func sqlType(t keytemplate.Type) string {
	switch t {
	case keytemplate.Text, keytemplate.UUID, keytemplate.TimestampTZ:
		return "pg_catalog." + t.String()
	}
	return t.String() // a keyword of SQL
}

// sqlText is a constant with the same meaning whatever standard_conforming_strings and client_encoding are. It has no
// character that could end it, nor the dollar-quoted text around it, and none that a tool could read before the server
// does: ; ends a statement, $ and {{ begin placeholders of migration tools.
func sqlText(text string) string {
	var b strings.Builder
	last := rune(0)
	for _, r := range text {
		switch {
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		case r > '~':
			fmt.Fprintf(&b, `\u%04x`, r)
		case r < ' ', strings.ContainsRune(`'\$;`, r), r == '{' && last == '{':
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteRune(r)
		}
		last = r
	}
	if escaped := b.String(); escaped != text {
		return "E'" + escaped + "'"
	}
	return "'" + text + "'"
}

// keywords are the keywords of PostgreSQL 18 that cannot name a function or a parameter without
// quotes (https://www.postgresql.org/docs/current/sql-keywords-appendix.html).
var keywords = strings.Fields(`
	all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case cast
	char character check coalesce collate collation column concurrently constraint create cross current_catalog
	current_date current_role current_schema current_time current_timestamp current_user dec decimal default deferrable
	desc distinct do else end except exists extract false fetch float for foreign freeze from full grant greatest group
	grouping having ilike in initially inner inout int integer intersect interval into is isnull join json json_array
	json_arrayagg json_exists json_object json_objectagg json_query json_scalar json_serialize json_table json_value
	lateral leading least left like limit localtime localtimestamp merge_action national natural nchar none normalize not
	notnull null nullif numeric offset on only or order out outer overlaps overlay placing position precision primary real
	references returning right row select session_user setof similar smallint some substring symmetric system_user table
	tablesample then time timestamp to trailing treat trim true union unique user using values varchar variadic verbose
	when where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot
	xmlserialize xmltable`)

var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// sqlName is a name of letters, digits and underscores, quoted where it has to be. Like sqlText it is ASCII.
func sqlName(name string) string {
	if plainName.MatchString(name) && !slices.Contains(keywords, name) {
		return name
	}
	var b strings.Builder
	prefix := ""
	for _, r := range name {
		if r <= '~' {
			b.WriteRune(r)
			continue
		}
		prefix = "U&"
		fmt.Fprintf(&b, `\+%06x`, r)
	}
	return prefix + `"` + b.String() + `"`
}

// snake returns a function's name in SQL style: tenant_invoice for TenantInvoice.
func snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if unicode.IsUpper(r) && i > 0 && (!unicode.IsUpper(runes[i-1]) || (i+1 < len(runes) && unicode.IsLower(runes[i+1]))) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// names writes the file for pglock monitor --names: on each line a name or a range of names.
func (p *project) names() string {
	var s source
	s.WriteString("# " + strings.TrimSpace(p.head("")) + "\n# The names of this project's locks, as far as they can be listed, " +
		"for pglock monitor --names.\n# Other names show with WithNames(), or once they have been given to pglock.register.\n")
	listed, most := int64(0), p.defaultNames()
	for _, k := range p.keys {
		switch {
		case len(k.template.Params()) == 0:
			s.printf("%s\n", pglock.NewKey(k.template.String()))
			listed++
		case hasOneInteger(k.template):
			low, high := k.low, k.high
			if high < low {
				low, high = 1, most
			}
			if listed += high - low + 1; listed > mostNames {
				s.printf("# %s: that would be more than %d names\n", k.template, mostNames)
				continue
			}
			name := k.template.WithParams(func(param keytemplate.Param) keytemplate.Param {
				param.Name = fmt.Sprintf("%d..%d", low, high)
				return param
			})
			s.printf("%s\n", pglock.NewKey(name.String()))
		default:
			s.printf("# %s: too many to list\n", k.template)
		}
	}
	return s.String()
}

// defaultNames is how many names of a key with an integer are listed by default.
func (p *project) defaultNames() int64 {
	integers := 0
	for _, k := range p.keys {
		if hasOneInteger(k.template) {
			integers++
		}
	}
	return min(1000, max(1, mostNames/2/int64(max(integers, 1))))
}

// vetRules are for sqlc vet, which reads them only from sqlc.yaml.
func (p *project) vetRules() string {
	return strings.ReplaceAll(p.head("#"), "\n\n", "\n") + `# Copy the rule into sqlc.yaml, and name it in the rules of the sql blocks it is for: sqlc vet then refuses queries
# that call PostgreSQL's advisory lock functions by hand.
rules:
  - name: pglock-no-hand-written-locks
    message: "write -- pglock: lock name:{id} above the query instead of calling an advisory lock function"
    rule: query.sql.matches("(?i)\\bpg_(try_)?advisory_")
`
}

// variable are the names of templates in the generated code.
var variable = regexp.MustCompile(`^key\P{Ll}`)

// reserved reports whether a name cannot name a parameter in the generated code.
func reserved(name string) bool {
	return token.IsKeyword(name) || variable.MatchString(name) ||
		slices.Contains([]string{"pglock", "querylock", "pgx", "sql", "time", "queries"}, name)
}
