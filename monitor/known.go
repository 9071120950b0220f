package monitor

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"math"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// The advisory keys that well-known tools use. Each comes from the source of the tool, from the named file.
//
// Two are left out because they cannot be computed: Que (lib/que/poller.rb), whose keys are the IDs of jobs, and
// River's keys with a prefix that the user chooses (rivershared/util/hashutil/hash_util.go).

// fixedKeys are bigints that a tool takes in every database.
var fixedKeys = []struct {
	tool, text string
	number     int64
	confidence Confidence
}{
	{"goose", "goose migrations", 4097083626, ConfidenceProbable},                           // lock/session_locker_options.go
	{"Prisma", "Prisma migrations", 72707369, ConfidenceProbable},                           // src/flavour/postgres.rs
	{"tern", "tern migrations", 9628173550095224, ConfidenceProbable},                       // migrate/migrate.go
	{"Atlas", "Atlas migrations", 2686470616, ConfidenceProbable},                           // sql/postgres/driver.go
	{"Atlas", "Atlas computing a diff", 361947982, ConfidenceProbable},                      // sql/postgres/driver.go
	{"Sqitch", "Sqitch changes", 75474063, ConfidenceProbable},                              // lib/App/Sqitch/Engine/pg.pm
	{"node-pg-migrate", "node-pg-migrate migrations", 7241865325823964, ConfidenceProbable}, // src/runner.ts
	{"pg_partman", "pg_partman maintenance", -988976779, ConfidenceProbable},                // sql/procedures
	{"pgBackRest", "a pgBackRest backup", 12340078987004321, ConfidenceProbable},            // src/db/db.c
	{"Airflow", "Airflow migrations", 1, ConfidencePossible},                                // airflow/utils/db.py
	{"Airflow", "the Airflow scheduler", 2, ConfidencePossible},                             // airflow/utils/db.py
}

// databaseKeys are bigints that are computed from the name of the database, which replaces %s.
var databaseKeys = []struct {
	tool, text string
	number     func(database string) int64
}{
	// database/util.go, with the names of the schema and table that are the default.
	{"golang-migrate", "golang-migrate migrations of database %s", golangMigrate},
	// Opened from a URL, as its command does, it takes the path of the URL for the name of the database.
	{"golang-migrate", "golang-migrate migrations of database %s", func(database string) int64 { return golangMigrate("/" + database) }},
	// activerecord/lib/active_record/migration.rb
	{"Rails", "Rails migrations of database %s", func(database string) int64 {
		return 2053462845 * int64(crc(database))
	}},
	// sqlx-postgres/src/migrate.rs
	{"sqlx", "sqlx migrations of database %s", func(database string) int64 {
		return 0x3d32ad9e * int64(crc(database))
	}},
	// src/plans.ts, with the name of the schema that is the default.
	{"pg-boss", "pg-boss setting up database %s", func(database string) int64 {
		return pgBoss(database, "")
	}},
	{"pg-boss", "pg-boss counting the jobs of database %s", func(database string) int64 {
		return pgBoss(database, "queue-stats")
	}},
}

func golangMigrate(database string) int64 {
	const salt = 1486364155
	return int64(crc("public\x00schema_migrations\x00"+database) * salt)
}

func pgBoss(database, key string) int64 {
	sum := sha256.Sum224([]byte(database + ".pgboss.pgboss" + key))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// keyRanges are keys that a tool makes from something unknown here, but that can be recognised by a part of them or by
// their size.
var keyRanges = []struct {
	tool       string
	confidence Confidence
	match      func(identity) (text string, ok bool)
}{
	// PostgreSQLAdvisoryLockTemplate.java adds a hash of 32 bits to a constant.
	{"Flyway", ConfidenceProbable, func(id identity) (string, bool) {
		hash := id.number - 77431708279161
		return "Flyway migrations", id.space() == SpaceBigint && math.MinInt32 <= hash && hash <= math.MaxInt32
	}},
	// bin/pg_repack.c; the table is named where that is possible.
	{"pg_repack", ConfidenceProbable, func(id identity) (string, bool) {
		table, ok := id.repacks()
		return fmt.Sprintf("pg_repack of the table with OID %d", table), ok
	}},
	// src/include/distributed/resource_lock.h
	{"Citus", ConfidenceProbable, func(id identity) (string, bool) {
		kind := id.objsubid
		return fmt.Sprintf("a lock of Citus, kind %d", kind), 4 <= kind && kind <= 16 && kind != 11
	}},
	// coderd/database/lock.go
	{"Coder", ConfidencePossible, func(id identity) (string, bool) {
		return fmt.Sprintf("lock %d of Coder", id.number), id.space() == SpaceBigint && 1 <= id.number && id.number <= 10
	}},
	// PostgresAdvisoryLockKey.cs packs up to nine characters of seven bits into the 64 bits of a pair.
	{"DistributedLock", ConfidencePossible, func(id identity) (string, bool) {
		name, ok := unpackASCII(uint64(id.number))
		return fmt.Sprintf("DistributedLock's lock %q", name), id.space() == SpacePair && ok
	}},
}

// repacks returns the OID of the table that a key of pg_repack locks: its second integer is the OID less 2^31.
func (id identity) repacks() (table uint32, ok bool) {
	const prefix = 16185446
	class, object := id.halves()
	return uint32(object) ^ 1<<31, id.space() == SpacePair && class == prefix
}

// unpackASCII reads characters of seven bits, the first in the highest bits. The rest is filled with a 0 and then 1s. If
// the characters are not printable, the number was most likely not made this way.
func unpackASCII(bits uint64) (name string, ok bool) {
	length := 9
	for ; length > 0 && bits&0x7f == 0x7f; length-- {
		bits >>= 7
	}
	if length == 0 || bits&1 != 0 {
		return "", false
	}
	text := make([]byte, length)
	bits >>= 1
	for i := length - 1; i >= 0; i-- {
		text[i] = byte(bits & 0x7f)
		bits >>= 7
		if text[i] < ' ' || text[i] > '~' {
			return "", false
		}
	}
	return string(text), true
}

// namedKeys are keys that a tool computes from a name that users choose. They can be recognized only if the name is
// known.
var namedKeys = []struct {
	name, what string
	space      driver.Space
	number     func(name string) int64
}{
	{"PostgreSQL", "hashtext of", driver.SpaceBigint, func(name string) int64 {
		short, _ := hashtext(name)
		return int64(short)
	}},
	{"PostgreSQL", "hashtextextended of", driver.SpaceBigint, func(name string) int64 {
		_, long := hashtext(name)
		return long
	}},
	// lib/with_advisory_lock/postgresql_advisory.rb; the second integer is a prefix, 0 by default.
	{"with_advisory_lock", "with_advisory_lock's lock", driver.SpacePair, func(name string) int64 {
		return driver.PairID(int32(crc(name)&0x7fffffff), 0).Number
	}},
	// django_pglocks/__init__.py
	{"django-pglocks", "django-pglocks' lock", driver.SpaceBigint, func(name string) int64 { return int64(int32(crc(name))) }},
	// Store/PostgreSqlStore.php
	{"Symfony", "Symfony's lock", driver.SpaceBigint, func(name string) int64 { return int64(crc(name)) }},
	// PostgresAdvisoryLockKey.cs
	{"DistributedLock", "DistributedLock's lock", driver.SpaceBigint, sha1LittleEndian},
	// pals/core.py, in the byte order of the machine, which is this one nearly everywhere. The name begins with that of
	// the application and a dot.
	{"pals", "pals' lock", driver.SpaceBigint, sha1LittleEndian},
	// rivershared/util/hashutil/hash_util.go
	{"River", "River's lock", driver.SpaceBigint, func(name string) int64 {
		hash := fnv.New64()
		_, _ = hash.Write([]byte(name)) // never fails
		return int64(hash.Sum64())
	}},
	// sql/postgres/driver.go
	{"Atlas", "Atlas' lock", driver.SpaceBigint, func(name string) int64 {
		hash := fnv.New32()
		_, _ = hash.Write([]byte(name)) // never fails
		return int64(hash.Sum32())
	}},
	// app/models/good_job/job/lockable.rb; the name is that of the table, a dash, and the ID of the row.
	{"GoodJob", "GoodJob's lock", driver.SpaceBigint, func(name string) int64 {
		sum := md5.Sum([]byte(name))
		return int64(binary.BigEndian.Uint64(sum[:]))
	}},
}

func crc(text string) uint32 { return crc32.ChecksumIEEE([]byte(text)) }

func sha1LittleEndian(text string) int64 {
	sum := sha1.Sum([]byte(text))
	return int64(binary.LittleEndian.Uint64(sum[:]))
}
