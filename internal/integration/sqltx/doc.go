// Package sqltx tests the adapter of that name with the drivers for database/sql, pgx and lib/pq, and each of the ways
// in which they send statements.
package sqltx
