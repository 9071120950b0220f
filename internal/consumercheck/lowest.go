package main

import (
	"errors"
	"fmt"
	"os"
)

// lowestPgx is the lowest pgx that the packages for pgx's users are compiled with here. docs/compatibility.md says why
// go.mod requires a later one.
const lowestPgx = "v5.9.2"

const lowestProgram = `package main

import (
	_ "github.com/pglock-toolkit/pglock/monitor"
	_ "github.com/pglock-toolkit/pglock/pglock"
	_ "github.com/pglock-toolkit/pglock/pglock/adapter/sqltx"
	_ "github.com/pglock-toolkit/pglock/pglock/leader"
	_ "github.com/pglock-toolkit/pglock/pglock/locktest"
	_ "github.com/pglock-toolkit/pglock/pglock/once"
	_ "github.com/pglock-toolkit/pglock/pglock/querylock"
	_ "github.com/pglock-toolkit/pglock/pglock/ratelimit"
	_ "github.com/pglock-toolkit/pglock/pglock/schedule"
	_ "github.com/pglock-toolkit/pglock/pglock/semaphore"
)

func main() {}
`

// buildWithLowestPgx compiles the packages as part of a program that replaces pgx with the lowest version.
func buildWithLowestPgx(lib library) (err error) {
	dir, err := os.MkdirTemp("", "pglock-consumer-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := writeConsumer(dir, lib, lowestProgram, fmt.Sprintf("replace %s => %[1]s %s\n", pgx, lowestPgx)); err != nil {
		return err
	}
	for _, args := range [][]string{{"mod", "tidy"}, {"build", "-o", os.DevNull, "."}} {
		if _, err := goLines(dir, args...); err != nil {
			return fmt.Errorf("with pgx %s: %w", lowestPgx, err)
		}
	}
	return nil
}
