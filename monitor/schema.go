package monitor

import _ "embed" // for the schema

//go:embed snapshot.schema.json
var jsonSchema string

// JSONSchema is the JSON Schema (draft 2020-12) of a [Snapshot] as JSON, with what each field means. It is for version
// [FormatVersion]; later minor versions may add fields to it.
func JSONSchema() string { return jsonSchema }
