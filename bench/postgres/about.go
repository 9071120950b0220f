package main

import (
	"fmt"
	"runtime"

	"github.com/pglock-toolkit/pglock/bench/internal/suite"
)

// About implements [suite.Lab].
func (l *lab) About() (title string, about map[string]string) {
	about = map[string]string{
		"postgres": l.server.Binaries().Version,
		"pgx":      suite.ModuleVersion("github.com/jackc/pgx/v5"),
		"goose":    suite.ModuleVersion("github.com/pressly/goose/v3"),
	}
	title = fmt.Sprintf("PostgreSQL %s, %s %s/%s, pgx %s, goose %s", about["postgres"],
		runtime.Version(), runtime.GOOS, runtime.GOARCH, about["pgx"], about["goose"])
	return title, about
}
