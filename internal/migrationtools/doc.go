// Package migrationtools has nothing but a test: it runs pglock's migrations with the tools that people run theirs with.
// It is a module of its own so that these tools are no dependencies of programs that import pglock.
package migrationtools
