// Package sqltxtools contains only a test, which takes locks in transactions of libraries on top of database/sql.
package sqltxtools
