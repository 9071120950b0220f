//pglock:allow a comparison with locks by hand

package allow

const four = "SELECT pg_advisory_lock(4)"
