// Package migrationtools contains only a test, which runs pglock's migrations with other migration tools.
package migrationtools
