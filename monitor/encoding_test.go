package monitor_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pglock-toolkit/pglock/internal/testenv"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
	"github.com/pglock-toolkit/pglock/monitor"
	"github.com/pglock-toolkit/pglock/pglock"
)

// encodings are one of each kind: with characters of one byte, of up to three and of up to four, one that refuses some bytes,
// one without conversions to UTF-8, and one that converts nothing.
var encodings = []string{"LATIN1", "EUC_JP", "EUC_TW", "WIN1252", "MULE_INTERNAL", "SQL_ASCII", "UTF8"}

// Statements are in the encodings of the databases in which they run, whatever the one is to which the monitor is connected, and
// bytea_output does not matter.
func TestTextsOfOtherEncodings(t *testing.T) {
	db := testenv.Database(t)
	execute(t, db.Pool(t), "SET application_name = 'x'")
	holder := session(t, db, "SELECT pg_advisory_lock(77), 'Ávila \\d+ it''s 日本'")
	admin := db.Connect(t)
	for i, encoding := range encodings {
		modes := queryModes[i%len(queryModes):][:1] // the texts are the same in all of them
		if encoding == "WIN1252" || encoding == "SQL_ASCII" || encoding == "MULE_INTERNAL" {
			modes = queryModes
		}
		name := db.Name() + "_" + strings.ToLower(encoding)
		execute(t, admin, "CREATE DATABASE "+quoted(name)+" ENCODING '"+encoding+"' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
		execute(t, admin, "ALTER DATABASE "+quoted(name)+" SET bytea_output = 'escape'")
		for _, mode := range modes {
			config := db.Config(t).ConnConfig
			config.Database, config.DefaultQueryExecMode = name, mode
			if encoding != "MULE_INTERNAL" { // which has no conversion to UTF-8
				config.RuntimeParams["client_encoding"] = "UTF8"
			} else if mode == pgx.QueryExecModeSimpleProtocol {
				continue // of pgx, it needs UTF-8
			}
			conn, err := pgx.ConnectConfig(t.Context(), config)
			must.Succeed(t, err)
			s, err := monitor.Take(t.Context(), conn)
			if err != nil {
				t.Fatalf("%s, %v: %v", encoding, mode, err)
			}
			if !strings.Contains(queryOf(s, pidOf(holder)), "it''s") || !utf8.ValidString(queryOf(s, pidOf(holder))) {
				t.Errorf("%s, %v: the statement is %q", encoding, mode, queryOf(s, pidOf(holder)))
			}
			must.Succeed(t, conn.Close(t.Context()))
		}
		execute(t, admin, "DROP DATABASE "+quoted(name))
	}
}

func queryOf(s *monitor.Snapshot, pid int32) string {
	for session := range s.Sessions() {
		if session.PID == pid {
			return session.Query
		}
	}
	return ""
}

// The name of a role is in the encoding of the database in which it was made.
func TestHoldersWithNamesOfOtherEncodings(t *testing.T) {
	db := testenv.Database(t)
	admin, role := db.Connect(t), "r\xe9le_"+db.Name()[len(db.Name())-8:]
	for _, encoding := range []string{"LATIN1", "EUC_JP"} {
		execute(t, admin, "CREATE DATABASE "+quoted(db.Name()+encoding)+" ENCODING '"+encoding+"' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
		defer execute(t, admin, "DROP DATABASE "+quoted(db.Name()+encoding)+" WITH (FORCE)")
	}
	connect := func(user, encoding string) *pgxpool.Pool {
		config := db.Config(t)
		config.ConnConfig.Database = db.Name() + encoding
		if user != "" {
			config.ConnConfig.User, config.ConnConfig.Password = user, "x"
		} else if encoding != "LATIN1" {
			config.ConnConfig.RuntimeParams["client_encoding"] = "UTF8"
		}
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		must.Succeed(t, err)
		t.Cleanup(pool.Close)
		return pool
	}
	execute(t, connect("", "LATIN1"), "CREATE ROLE "+quoted(role)+" LOGIN SUPERUSER PASSWORD 'x'")
	defer func() { execute(t, connect("", "LATIN1"), "DROP ROLE "+quoted(role)) }()
	holder, asks := connect(role, "EUC_JP"), connect("", "EUC_JP")
	defer holder.Close()
	execute(t, holder, "SELECT pg_advisory_lock(77)")
	l, err := pglock.New(asks)
	must.Succeed(t, err)
	defer l.Close(t.Context())
	holders, err := l.Holders(t.Context(), pglock.Int64Key(77))
	must.Succeed(t, err)
	if len(holders) != 1 || !strings.HasPrefix(holders[0].User, `r\xe9le_`) {
		t.Errorf("%+v", holders)
	}
	must.Succeed(t, l.Close(t.Context()))
}
