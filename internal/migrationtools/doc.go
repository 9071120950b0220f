// Package migrationtools contains only a test, which runs pglock's migrations with other migration tools. It is a
// separate module so that these tools are not dependencies of programs that import pglock.
package migrationtools
