package monitor_test

import (
	"encoding/json"
	"flag"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
)

var update = flag.Bool("update", false, "write "+schemaFile+" anew")

const schemaFile = "snapshot.schema.json"

// The JSON Schema agrees with the types and their comments.
func TestJSONSchemaSaysWhatTheTypesSay(t *testing.T) {
	s := schema{docs: readDocs(t), defs: map[string]any{}}
	root := s.object(reflect.TypeFor[monitor.Snapshot]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "A snapshot of pglock monitor, version 1"
	root["properties"].(map[string]any)["version"] = map[string]any{"const": monitor.FormatVersion}
	root["$defs"] = s.defs
	want, err := json.MarshalIndent(root, "", "  ")
	must.Succeed(t, err)
	want = append(want, '\n')
	if *update {
		must.Succeed(t, os.WriteFile(schemaFile, want, 0o644))
	}
	got, err := os.ReadFile(schemaFile)
	must.Succeed(t, err)
	if string(got) != string(want) {
		t.Errorf("%s is not what the types say: go test ./monitor -run Schema -update", schemaFile)
	}
}

// schema makes a JSON Schema from Go types.
type schema struct {
	docs map[string]string // of types, and of fields as Type.Field
	defs map[string]any
}

func (s schema) object(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	s.fields(t, func(name string, property map[string]any) {
		properties[name] = property
		required = append(required, name)
	})
	// Later versions may add fields, so others are allowed.
	return map[string]any{"type": "object", "description": s.docs[t.Name()], "properties": properties, "required": required}
}

func (s schema) fields(t reflect.Type, add func(name string, property map[string]any)) {
	words := ""
	for i := range t.NumField() {
		field := t.Field(i)
		if field.Anonymous {
			s.fields(field.Type, add)
			continue
		}
		if !field.IsExported() {
			continue
		}
		if own := s.docs[t.Name()+"."+field.Name]; own != "" {
			words = own // without a comment, the one above is for this field too
		}
		name, option, _ := strings.Cut(field.Tag.Get("json"), ",")
		property := s.property(field.Type)
		if option == "string" {
			property = map[string]any{"type": "string", "pattern": "^-?[0-9]+$"}
		}
		property["description"] = words
		add(name, property)
	}
}

// closed has the types that have only these values.
var closed = map[reflect.Type][]any{
	reflect.TypeFor[monitor.Space]():     {monitor.SpaceBigint, monitor.SpacePair, monitor.SpaceOther},
	reflect.TypeFor[monitor.BlockKind](): {monitor.BlockHard, monitor.BlockSoft},
}

func (s schema) property(t reflect.Type) map[string]any {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case closed[t] != nil:
		return map[string]any{"enum": closed[t]}
	}
	switch t.Kind() {
	case reflect.Pointer:
		property := s.property(t.Elem())
		if property["type"] == nil { // a reference
			return map[string]any{"anyOf": []any{property, map[string]any{"type": "null"}}}
		}
		property["type"] = []any{property["type"], "null"}
		return property
	case reflect.Slice:
		return map[string]any{"type": "array", "items": s.property(t.Elem())}
	case reflect.Struct:
		if s.defs[t.Name()] == nil {
			s.defs[t.Name()] = s.object(t)
		}
		return map[string]any{"$ref": "#/$defs/" + t.Name()}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	}
	return map[string]any{"type": "integer"}
}

// readDocs reads the comments of the package's types.
func readDocs(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*.go")
	must.Succeed(t, err)
	set, files := token.NewFileSet(), []*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		must.Succeed(t, err)
		files = append(files, file)
	}
	pkg, err := doc.NewFromFiles(set, files, "github.com/pglock-toolkit/pglock/monitor")
	must.Succeed(t, err)
	docs := map[string]string{}
	for _, typ := range pkg.Types {
		docs[typ.Name] = words(typ.Doc)
		for _, spec := range typ.Decl.Specs {
			structure, ok := spec.(*ast.TypeSpec).Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, field := range structure.Fields.List {
				for _, name := range field.Names {
					docs[typ.Name+"."+name.Name] = words(field.Doc.Text())
				}
			}
		}
	}
	return docs
}

// words returns a comment on one line, without the brackets of its links.
func words(comment string) string {
	return strings.NewReplacer("[", "", "]", "").Replace(strings.Join(strings.Fields(comment), " "))
}
