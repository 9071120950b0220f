package allow

const (
	one = "SELECT pg_advisory_lock(1)" //pglock:allow the old service takes it too

	//pglock:allow
	two   = "SELECT pg_advisory_lock(2)"
	three = "SELECT pg_advisory_lock(3)" // want `pg_advisory_lock by hand`
)
