package faults_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// state writes into a file what server, pooler and this process do, and returns its name.
func (s *storm) state() (name string) {
	var text strings.Builder
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, look := range looks {
		writeRows(ctx, &text, s.pool.Config().ConnString(), look)
	}
	text.WriteString("\nthrough the pooler:\n")
	writeRows(ctx, &text, s.pooler.ConnString()+"&default_query_exec_mode=simple_protocol", "select 1")
	_ = pprof.Lookup("goroutine").WriteTo(&text, 1) // a strings.Builder takes everything
	name = filepath.Join(findings(s.T), fmt.Sprintf("state-%d.txt", time.Now().UnixNano()))
	if err := os.WriteFile(name, []byte(text.String()), 0o600); err != nil {
		s.Error(err)
	}
	return name
}

var looks = []string{
	`select pid, backend_type, state, wait_event_type, wait_event, pg_blocking_pids(pid), clock_timestamp() - xact_start,
		left(query, 300) from pg_stat_activity`,
	"select id, expires, ended, floor, application, clock_timestamp() from pglock.holders where not ended",
	"select * from pglock.leases",
	"select * from pglock.lease_shares",
	"select * from pglock.lease_waiters order by arrival limit 100",
}

// writeRows writes the rows that a query returns, on a connection of its own.
func writeRows(ctx context.Context, text *strings.Builder, connString, query string) {
	fmt.Fprintf(text, "\n%s\n", query)
	conn, err := pgx.Connect(ctx, connString)
	if err != nil {
		fmt.Fprintln(text, err)
		return
	}
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, query)
	if err != nil {
		fmt.Fprintln(text, err)
		return
	}
	defer rows.Close()
	for rows.Next() {
		values, err := rows.Values()
		fmt.Fprintln(text, values, err)
	}
	if rows.Err() != nil {
		fmt.Fprintln(text, rows.Err())
	}
}
