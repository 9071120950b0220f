// Package sqltxtools has nothing but a test: it takes locks in transactions of what people use on top of database/sql. It
// is a module of its own so that these are no dependencies of programs that import pglock.
package sqltxtools
