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
	name    string
	config  *pgx.ConnConfig
	script  string
	clients int
	pairs   float64 // in one transaction
	args    []string
	rate    float64 // transactions per second, as measured last
}

// pgbench returns the server's limit with many connections and a statement for each lock and unlock, and with two
// connections and statements over many keys.
func (b *bench) pgbench() []*pgbench {
	keys := make([]string, arrayLength)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	config := b.Pool.Config().ConnConfig
	return []*pgbench{
		{name: "pgbench, 64 clients", config: config, script: singleScript, clients: 64, pairs: 1},
		{name: "pgbench, 2 with arrays", config: config, script: arrayScript, clients: 2, pairs: arrayLength,
			args: []string{"--define=keys={" + strings.Join(keys, ",") + "}"}},
	}
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
	cmd := exec.CommandContext(ctx, pgbenchProgram(), append([]string{
		"--no-vacuum", "--protocol=prepared", "--file=" + script,
		"--client=" + strconv.Itoa(p.clients), "--jobs=" + strconv.Itoa(min(2, p.clients)),
		"--transactions=" + strconv.Itoa(max(20, int(p.rate*d.Seconds())/p.clients)),
	}, p.args...)...)
	// Other users can see the arguments of a command, but not its environment.
	cmd.Env = append(os.Environ(), "PGHOST="+p.config.Host, "PGPORT="+strconv.Itoa(int(p.config.Port)),
		"PGDATABASE="+p.config.Database, "PGUSER="+p.config.User, "PGPASSWORD="+p.config.Password, "PGSSLMODE=disable")
	output, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%w; pgbench comes with PostgreSQL's server or contrib package\n%s", err, output)
	}
	match := rateLine.FindStringSubmatch(string(output))
	if match == nil {
		return 0, fmt.Errorf("pgbench printed no rate:\n%s", output)
	}
	p.rate, err = strconv.ParseFloat(match[1], 64)
	return p.rate * p.pairs, err
}

var rateLine = regexp.MustCompile(`(?m)^tps = ([0-9.]+) \(without initial connection time\)`)

// pgbenchProgram returns the server's pgbench, or the one on the PATH.
func pgbenchProgram() string {
	binaries, _ := pgserver.Find() // a server of these runs
	if own, err := exec.LookPath(filepath.Join(binaries.Dir, "pgbench")); err == nil {
		return own
	}
	return "pgbench"
}
