// Package ent is what ent generates for its users with the feature that sqltx needs.
package ent

//go:generate go tool ent generate --feature sql/execquery ./schema
