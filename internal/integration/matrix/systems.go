package main

// system is a server in an image of its own, or a pooler in front of one.
type system struct {
	name     string
	release  string // of Debian
	packages []string
	version  string // how the version of the first package must begin
	command  []string
	suites   []suite
}

// suite is a number of tests.
type suite struct {
	name, module, packages, tests string
}

var (
	onPostgres = []suite{
		{"locks", ".", "./pglock/locktest", "^TestPostgresPassesTheSuite$"},
		{"rows", ".", "./pglock/rowlock", "^TestLongSuitePassesDirectly$"},
		{"primitives", ".", "./pglock/leader ./pglock/semaphore ./pglock/schedule ./pglock/ratelimit", "PassesTheSuite$"},
		{"monitor", ".", "./monitor", "^TestSnapshot"},
		{"migrations", ".", "./migrations", "^Test(UpInstalls|UpAndDown|Key|Locks|Waits|Prepared)"},
	}
	onRedis = []suite{
		{"locks", ".", "./redisfallback", "^TestSuiteOneServerPassesTheSuite$"},
		{"primitives", ".", "./redisfallback", "^Test(Leader|Semaphore|Schedule|Ratelimit)PassesTheSuite$"},
	}
	throughPooler = []suite{
		{"sessions", "internal/integration", "./pooler", ""},
		{"rows", ".", "./pglock/rowlock", "^TestSuitePassesThroughAPoolerOfTransactions$"},
	}
)

var systems = []system{
	{"PostgreSQL 15", "bookworm", []string{"postgresql-15"}, "15.", []string{"postgres"}, onPostgres},
	{"PostgreSQL 17", "trixie", []string{"postgresql-17"}, "17.", []string{"postgres"}, onPostgres},
	{"PostgreSQL 18", "forky", []string{"postgresql-18"}, "18.", []string{"postgres"}, onPostgres},
	{"PostgreSQL 19", "experimental", []string{"postgresql-19"}, "19", []string{"postgres"}, onPostgres},
	{"Redis 7", "bookworm", []string{"redis-server"}, "7.", []string{"redis"}, onRedis},
	{"Redis 8", "trixie", []string{"redis-server"}, "8.", []string{"redis"}, onRedis},
	{"Valkey 8", "trixie", []string{"valkey-server"}, "8.", []string{"valkey"}, onRedis},
	{"Valkey 9", "forky", []string{"valkey-server"}, "9.", []string{"valkey"}, onRedis},
	{"PgBouncer 1.18, transactions", "bookworm", []string{"pgbouncer", "postgresql-15"}, "1.18", []string{"pgbouncer", "transaction"}, throughPooler},
	{"PgBouncer 1.18, sessions", "bookworm", []string{"pgbouncer", "postgresql-15"}, "1.18", []string{"pgbouncer", "session"}, throughPooler},
	{"PgBouncer 1.26, transactions", "forky", []string{"pgbouncer", "postgresql-18"}, "1.26", []string{"pgbouncer", "transaction"}, throughPooler},
	{"PgBouncer 1.26, sessions", "forky", []string{"pgbouncer", "postgresql-18"}, "1.26", []string{"pgbouncer", "session"}, throughPooler},
	{"Odyssey, transactions", "sid", []string{"odyssey", "postgresql-18"}, "1.", []string{"odyssey", "transaction"}, throughPooler},
	{"Odyssey, sessions", "sid", []string{"odyssey", "postgresql-18"}, "1.", []string{"odyssey", "session"}, throughPooler},
	{"Pgpool-II", "trixie", []string{"pgpool2", "postgresql-17"}, "4.", []string{"pgpool", "session"}, throughPooler},
}
