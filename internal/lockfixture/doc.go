// Package lockfixture is a sqlc project that has every kind of query and of lock, for pgx and for database/sql. Its
// packages are written by sqlc and its plugin sqlc-gen-pglock; the tests here run both again, and the queries against
// real servers. `make generate` writes them again.
package lockfixture
