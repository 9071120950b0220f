// Package querylock is the runtime of generated lock packages: keys whose names have parameters, and transactions
// that take the lock of a query together with the query.
//
// The packages are generated from comments in SQL, by the sqlc plugin sqlc-gen-pglock or by pglockdev generate;
// docs/sqlc.md describes both. Programs call the generated package; of this one they need [Tx] as a type, and
// [ErrUnknownQuery].
//
// # Names
//
// A name is the template's text with the parameters in their places, each in one canonical form that never changes:
//
//	bigint, integer, smallint   decimal, the same for all three
//	text                        as it is, with % : @ { } written as %25 %3A %40 %7B %7D
//	uuid                        lower case, with hyphens
//	boolean                     true or false
//	timestamptz                 microseconds since 1970-01-01 in UTC
//
// Different values have different names. A name has at most [pglock.MaxName] bytes. Some values make no name: NULL,
// infinity, a text with a NUL byte or that is not UTF-8, or one that is too long. As arguments of a query they are
// [pglock.ErrInvalidKey], before anything is sent. Functions such as locks.Invoice have no error to return: they
// return a key for which all functions that take one, and [pglock.Key.Check], return that error with its cause.
package querylock
