package raw

const inTest = "SELECT pg_advisory_lock(1)"
