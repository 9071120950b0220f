// Package lowestpgx contains only a test, which runs pglock on a PostgreSQL with the lowest pgx that its packages work
// with. A program can choose that with a replace directive as in go.mod here. docs/compatibility.md says more.
package lowestpgx
