//pglock:allow pglock is measured beside locks that are taken by hand

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
	"github.com/pglock-toolkit/pglock/internal/pgserver"
)

// Scripts of pgbench. Each of its clients has its own keys.
const (
	singleScript = `\set key (:client_id + 1) * 4294967296 + random(0, 1023)
SELECT pg_advisory_lock(:key);
SELECT pg_advisory_unlock(:key);
`
	arrayScript = `SELECT count(pg_try_advisory_lock(k + :client_id * 1000000)) FROM unnest(:keys::int8[]) AS k;
SELECT count(pg_advisory_unlock(k + :client_id * 1000000)) FROM unnest(:keys::int8[]) AS k;
`
	arrayLength = 256
)

// pgbench is a run of PostgreSQL's own benchmark: a client in C that only sends the statements, so it reaches the
// server's limit.
type pgbench struct {
	program     string
	environment []string
	script      string
	clients     int
	pairs       float64 // in one transaction
	args        []string
	rate        float64 // transactions per second, as measured last
}

func (l *lab) pgbenchSingle(clients int) *pgbench {
	return &pgbench{
		program: pgbenchProgram(l.server.Binaries()), environment: environment(l.admin.Config()),
		script: singleScript, clients: clients, pairs: 1,
	}
}

func (l *lab) pgbenchArrays(clients int) *pgbench {
	keys := make([]string, arrayLength)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	p := l.pgbenchSingle(clients)
	p.script, p.pairs = arrayScript, arrayLength
	p.args = []string{"--define=keys={" + strings.Join(keys, ",") + "}"}
	return p
}

func (p *pgbench) contestant(name string) contest.Contestant {
	return contest.Contestant{Name: name, Measure: p.measure}
}

// measure runs it for about d and returns the pairs per second. The run is bounded by a number of transactions, since
// a duration is in whole seconds and includes the time to connect.
func (p *pgbench) measure(ctx context.Context, d time.Duration) (_ float64, err error) {
	dir, err := os.MkdirTemp("", "pglock-bench-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	script := filepath.Join(dir, "script.sql")
	if err := os.WriteFile(script, []byte(p.script), 0o600); err != nil {
		return 0, err
	}
	transactions := max(100, int(p.rate*d.Seconds())/p.clients)
	output, err := p.command(ctx, script, transactions).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return 0, fmt.Errorf("%w; it comes with PostgreSQL's server or contrib package", err)
	}
	if err != nil {
		return 0, fmt.Errorf("%w\n%s", err, output)
	}
	p.rate, err = transactionRate(string(output))
	return p.rate * p.pairs, err
}

func (p *pgbench) command(ctx context.Context, script string, transactions int) *exec.Cmd {
	args := append([]string{
		"--no-vacuum", "--protocol=prepared", "--file=" + script,
		"--client=" + strconv.Itoa(p.clients), "--jobs=" + strconv.Itoa(min(2, p.clients)),
		"--transactions=" + strconv.Itoa(transactions),
	}, p.args...)
	cmd := exec.CommandContext(ctx, p.program, args...)
	cmd.Env = append(os.Environ(), p.environment...)
	return cmd
}

// environment tells libpq's programs how to connect. Other users can see the arguments of a command, but not
// its environment.
func environment(config *pgx.ConnConfig) []string {
	return []string{
		"PGHOST=" + config.Host, "PGPORT=" + strconv.Itoa(int(config.Port)), "PGDATABASE=" + config.Database,
		"PGUSER=" + config.User, "PGPASSWORD=" + config.Password, "PGSSLMODE=disable",
	}
}

// pgbenchProgram returns the server's pgbench, or the one on the PATH.
func pgbenchProgram(binaries pgserver.Binaries) string {
	if own, err := exec.LookPath(filepath.Join(binaries.Dir, "pgbench")); err == nil {
		return own
	}
	return "pgbench"
}

// rateLine has had two wordings: PostgreSQL 14 changed it.
var rateLine = regexp.MustCompile(
	`(?m)^tps = ([0-9.]+) \((?:without initial connection time|excluding connections establishing)\)`)

func transactionRate(output string) (float64, error) {
	match := rateLine.FindStringSubmatch(output)
	if match == nil {
		return 0, fmt.Errorf("pgbench printed no rate:\n%s", output)
	}
	return strconv.ParseFloat(match[1], 64)
}
