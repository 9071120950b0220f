// Package schema is what ent generates from.
package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/field"
)

// Invoice is a table.
type Invoice struct{ ent.Schema }

// Fields are the columns of the table.
func (Invoice) Fields() []ent.Field {
	return []ent.Field{field.Bool("paid").Default(false)}
}
