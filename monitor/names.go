package monitor

import (
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pglock-toolkit/pglock/internal/monitordb"
)

// noRegistry says why there are no names; empty when the registry can be asked.
func noRegistry(server monitordb.ServerRow) string {
	switch {
	case !server.RegistryInstalled:
		return fmt.Sprintf("schema pglock is not installed in database %q: run pglock migrate up", server.Database)
	case !server.RegistryReadable:
		return fmt.Sprintf("role %[1]s may not read the name registry: "+
			"GRANT USAGE ON SCHEMA pglock TO %[1]s; GRANT SELECT ON pglock.names TO %[1]s", quote(server.Role))
	}
	return ""
}

// nameable reports whether the registry could know a lock: names hash to bigints, and each database has its own.
func nameable(id identity, server monitordb.ServerRow) bool {
	return id.space() == Bigint && id.database == server.DatabaseOid.Uint32
}

// nameableKeys are the keys to look up, each once.
func nameableKeys(t tables) []int64 {
	keys := []int64{}
	for _, row := range t.locks {
		if id := identify(row.Database, row.Classid, row.Objid, row.Objsubid); nameable(id, t.server) {
			keys = append(keys, id.number)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// names is what the registry tells, or why it tells nothing.
type names struct {
	byKey   map[int64][]string
	missing string
}

// registered is a row of the name registry.
type registered struct {
	Key  int64  `json:"key"`
	Name string `json:"name"`
}

func newNames(rows []registered) names {
	byKey := map[int64][]string{}
	for _, row := range rows {
		byKey[row.Key] = append(byKey[row.Key], row.Name)
	}
	return names{byKey: byKey}
}

// of returns the registered names of a lock.
func (n names) of(id identity, server monitordb.ServerRow) []string {
	if !nameable(id, server) {
		return nil
	}
	return n.byKey[id.number]
}

// quote writes a role so that it can stand in a statement.
func quote(role string) string {
	return pgx.Identifier{role}.Sanitize()
}
