// Package lowestpgx has nothing but a test: it runs pglock on a PostgreSQL with the lowest pgx that its packages work with,
// which a program can choose with a replace directive as in go.mod here. docs/compatibility.md says more.
package lowestpgx
