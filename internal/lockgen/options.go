package lockgen

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The drivers for generated code.
const (
	PGX         = "pgx/v5"
	DatabaseSQL = "database/sql"
)

// Options are the options of the generator.
type Options struct {
	// Package is the name of the Go package.
	Package string
	// SQLPackage is the driver, [PGX] or [DatabaseSQL]; empty means PGX.
	SQLPackage string
	// SQLSchema is the schema of the SQL functions; empty means the name of the package.
	SQLSchema string
	// RequireKeys refuses locks whose keys are not declared.
	RequireKeys bool
	// Texts asks for a constant with the text of each query.
	Texts bool
	// Generator names the generator, for the first line of the package.
	Generator string
}

// ParseOptions reads the options of sqlc.yaml, which sqlc passes as JSON. Unknown options are an error.
func ParseOptions(text []byte) (o Options, err error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return o, nil
	}
	var given map[string]any
	if err := json.Unmarshal(text, &given); err != nil {
		return o, fmt.Errorf("options of the plugin: want a map such as {package: locks}, got %.100s", text)
	}
	options := map[string]any{"package": &o.Package, "sql_package": &o.SQLPackage, "sql_schema": &o.SQLSchema, "require_keys": &o.RequireKeys}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		var ok bool
		switch option := options[name].(type) {
		case nil:
			return o, fmt.Errorf("options of the plugin: unknown option %q: the options are package, sql_package, sql_schema and "+
				"require_keys", name)
		case *string:
			if *option, ok = given[name].(string); !ok {
				return o, fmt.Errorf("options of the plugin: option %s: want a text, got %v", name, given[name])
			}
		case *bool:
			if *option, ok = given[name].(bool); !ok {
				return o, fmt.Errorf("options of the plugin: option %s: want true or false, got %v", name, given[name])
			}
		}
	}
	return o, nil
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

func (o *Options) check() error {
	if o.SQLPackage == "" {
		o.SQLPackage = PGX
	}
	if o.SQLSchema == "" {
		o.SQLSchema = o.Package
	}
	switch {
	case !token.IsIdentifier(o.Package) || o.Package == "main" || o.Package == "_":
		return fmt.Errorf("package %q: want the name of a Go package, such as locks", o.Package)
	case o.SQLPackage != PGX && o.SQLPackage != DatabaseSQL:
		return fmt.Errorf("sql_package %q: want %s or %s, as sqlc's own gen: go has", o.SQLPackage, PGX, DatabaseSQL)
	case !schemaName.MatchString(o.SQLSchema):
		return fmt.Errorf("sql_schema %q: want a name in lower case without quotes, such as locks", o.SQLSchema)
	case len(o.SQLSchema) > maxSQLName:
		return fmt.Errorf("sql_schema %q: PostgreSQL's names have at most %d bytes", o.SQLSchema, maxSQLName)
	case o.SQLSchema == "public" || o.SQLSchema == "information_schema" || strings.HasPrefix(o.SQLSchema, "pg_"):
		return fmt.Errorf("sql_schema %q belongs to another role, which could replace the functions: choose a schema of their "+
			"own, such as locks", o.SQLSchema)
	case o.SQLSchema == "pglock":
		return errors.New("sql_schema pglock: that schema is pglock's own, which pglock migrate installs: choose another")
	}
	return nil
}
