// Package lockfixture is a sqlc project with every kind of query and lock, for pgx. sqlc and its
// plugin sqlc-gen-pglock generate its packages; the tests run both again, and run the queries on real servers. `make
// generate` updates the packages.
package lockfixture
