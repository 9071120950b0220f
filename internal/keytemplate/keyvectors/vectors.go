// Package keyvectors contains the frozen names that all tests of templates share.
package keyvectors

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
	"github.com/pglock-toolkit/pglock/pglock/querylock"
)

//go:embed vectors.txt
var vectors string

// Vector is a name that a template makes from values. The tests of all implementations share them.
type Vector struct {
	Template keytemplate.Template
	Values   []string // as written by people
	Name     string
	Key      int64
}

// All returns the frozen names.
func All() (all []Vector, err error) {
	for i, line := range strings.Split(strings.TrimSpace(vectors), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		v, err := parseVector(line)
		if err != nil {
			return nil, fmt.Errorf("vector in line %d: %w", i+1, err)
		}
		all = append(all, v)
	}
	return all, nil
}

func parseVector(line string) (v Vector, err error) {
	parts := strings.Split(line, "; ")
	if len(parts) != 4 {
		return v, fmt.Errorf("it has %d parts", len(parts))
	}
	if v.Template, err = keytemplate.Parse(parts[0]); err != nil {
		return v, err
	}
	if err := json.Unmarshal([]byte("["+parts[1]+"]"), &v.Values); err != nil {
		return v, err
	}
	if err := json.Unmarshal([]byte(parts[2]), &v.Name); err != nil {
		return v, err
	}
	v.Key, err = strconv.ParseInt(parts[3], 10, 64)
	return v, err
}

// Value returns value as a Go value: an int64, a string, a [16]byte, a bool or a time.Time.
func Value(t keytemplate.Type, value string) (any, error) {
	switch t {
	case keytemplate.Text:
		return value, nil
	case keytemplate.Boolean:
		return strconv.ParseBool(value)
	case keytemplate.UUID:
		var u pgtype.UUID
		err := u.Scan(value)
		return u.Bytes, err
	case keytemplate.TimestampTZ:
		return time.Parse(time.RFC3339Nano, value)
	}
	return strconv.ParseInt(value, 10, 64)
}

// Typed is the template as generated code has it.
func Typed(t keytemplate.Template) (typed querylock.Template) {
	text := ""
	t.Pieces(
		func(literal string) { text = literal },
		func(p *keytemplate.Param) {
			typed = append(typed, querylock.Part{Text: text, Param: p.Name, Type: types[p.Type]})
			text = ""
		},
	)
	if text != "" {
		typed = append(typed, querylock.Part{Text: text})
	}
	return typed
}

var types = map[keytemplate.Type]querylock.Type{
	keytemplate.SmallInt: querylock.Int, keytemplate.Integer: querylock.Int, keytemplate.BigInt: querylock.Int,
	keytemplate.Text: querylock.Text, keytemplate.UUID: querylock.UUID,
	keytemplate.Boolean: querylock.Bool, keytemplate.TimestampTZ: querylock.Time,
}
