package raw

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"rawdb"
)

const (
	function = "pg_advisory_lock_shared"

	take = "select " + "pg_advisory_lock($1)" // want `pg_advisory_lock by hand holds a lock of the connection`
	free = /* want `pg_advisory_unlock by hand` */ `
		-- pg_advisory_unlock_all() would free too much
		SELECT pg_catalog.pg_advisory_unlock($1)`
)

func raw(conn *pgx.Conn, key int64) {
	_ = conn.Exec(nil, fmt.Sprintf("SELECT pg_try_advisory_lock(%d)", key))               // want `pg_try_advisory_lock by hand`
	_ = conn.Exec(nil, "SELECT id FROM jobs WHERE pg_try_advisory_xact_lock(id) LIMIT 1") // want `pg_try_advisory_xact_lock by hand has no name in the monitor`
	_ = conn.Exec(nil, "DO $$ BEGIN PERFORM pg_advisory_lock(1); END $$")                 // want `pg_advisory_lock by hand`
	_ = columns("pg_try_advisory_xact_lock(hashtext(?)) AS locked")                       // want `pg_try_advisory_xact_lock by hand`
	_ = conn.Exec(nil, "SELECT PG_TRY_ADVISORY_XACT_LOCK(1)")                             // want `PG_TRY_ADVISORY_XACT_LOCK by hand has no name in the monitor`
	_ = conn.Exec(nil, "SELECT pg_catalog . pg_advisory_lock (1)")                        // want `pg_advisory_lock by hand`
	_ = conn.Exec(nil, `SELECT "pg_catalog"."pg_advisory_lock"(1)`)                       // want `pg_advisory_lock by hand`
	_ = conn.Exec(nil, take)
	_ = conn.Exec(nil, rawdb.Take)
	_ = conn.Exec(nil, take+";\n"+rawdb.Take)
	_ = conn.Exec(nil, "SELECT "+function+"(42)") // want `pg_advisory_lock_shared by hand`
}

func columns(string) error { return nil }

func texts(err error) {
	fmt.Println("the lock that SQL knows as pg_advisory_lock(42)")
	fmt.Println(fmt.Errorf("pg_advisory_lock(%d): %w", 42, err), "pg_advisory_unlock($1) has returned false")
	fmt.Println("SELECT query FROM pg_stat_activity WHERE query LIKE '%pg_advisory_lock(%'")
	fmt.Println("SELECT 1 /* SELECT pg_advisory_lock(1) */ -- SELECT pg_advisory_lock(1)")
	fmt.Println("SELECT proname FROM pg_proc WHERE proname = 'pg_advisory_lock'", "Unlock, or call pg_advisory_unlock_all (see docs)")
}
