// Package sqltxtools contains only a test, which takes locks in transactions of libraries on top of database/sql. It is
// a separate module so that these libraries are not dependencies of programs that import pglock.
package sqltxtools
