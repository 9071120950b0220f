package monitor

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// The advisory keys that well-known tools use. Each comes from the source of the tool, from the named file.

// fixedKeys are bigints that a tool takes in every database, and that others are unlikely to use by chance.
var fixedKeys = map[int64]string{
	4097083626:        "goose migrations",           // lock/session_locker_options.go
	72707369:          "Prisma migrations",          // src/flavour/postgres.rs
	9628173550095224:  "tern migrations",            // migrate/migrate.go
	2686470616:        "Atlas migrations",           // sql/postgres/driver.go
	361947982:         "Atlas computing a diff",     // sql/postgres/driver.go
	75474063:          "Sqitch changes",             // lib/App/Sqitch/Engine/pg.pm
	7241865325823964:  "node-pg-migrate migrations", // src/runner.ts
	-988976779:        "pg_partman maintenance",     // sql/procedures
	12340078987004321: "a pgBackRest backup",        // src/db/db.c
}

// databaseKeys are bigints that are computed from the name of the database, which replaces %s.
var databaseKeys = []struct {
	text   string
	number func(database string) int64
}{
	// database/util.go, with the names of the schema and table that are the default.
	{"golang-migrate migrations of database %s", golangMigrate},
	// Opened from a URL, as its command does, it takes the path of the URL for the name of the database.
	{"golang-migrate migrations of database %s", func(database string) int64 { return golangMigrate("/" + database) }},
	// activerecord/lib/active_record/migration.rb
	{"Rails migrations of database %s", func(database string) int64 { return 2053462845 * int64(crc(database)) }},
	// sqlx-postgres/src/migrate.rs
	{"sqlx migrations of database %s", func(database string) int64 { return 0x3d32ad9e * int64(crc(database)) }},
	// src/plans.ts, with the name of the schema that is the default.
	{"pg-boss setting up database %s", func(database string) int64 { return pgBoss(database, "") }},
	{"pg-boss counting the jobs of database %s", func(database string) int64 { return pgBoss(database, "queue-stats") }},
}

func golangMigrate(database string) int64 {
	const salt = 1486364155
	return int64(crc("public\x00schema_migrations\x00"+database) * salt)
}

func pgBoss(database, key string) int64 {
	sum := sha256.Sum224([]byte(database + ".pgboss.pgboss" + key))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// inRange returns the tool that makes a key from something unknown here, but that can be recognised by a part of the key or by
// its size, or "".
func inRange(id identity) string {
	class, object := id.halves()
	// PostgreSQLAdvisoryLockTemplate.java adds a hash of 32 bits to a constant.
	hash := id.number - 77431708279161
	switch kind := id.objsubid; {
	case id.space() == spaceBigint && math.MinInt32 <= hash && hash <= math.MaxInt32:
		return "Flyway migrations"
	case 4 <= kind && kind <= 16 && kind != 11: // src/include/distributed/resource_lock.h
		return fmt.Sprintf("a lock of Citus, kind %d", kind)
	case id.space() == spacePair && class == 16185446: // bin/pg_repack.c: the second integer is the OID less 2^31
		return fmt.Sprintf("pg_repack of the table with OID %d", uint32(object)^1<<31)
	}
	return ""
}

// withAdvisoryLock returns the key of a name, from lib/with_advisory_lock/postgresql_advisory.rb; the second integer is a prefix, 0
// by default. It can be recognised only if the name stands in a statement.
func withAdvisoryLock(name string) driver.KeyID { return driver.PairID(int32(crc(name)&0x7fffffff), 0) }

func crc(text string) uint32 { return crc32.ChecksumIEEE([]byte(text)) }
