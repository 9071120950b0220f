package monitor

import (
	"encoding/hex"
	"encoding/xml"
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

// parseNames reads the answer to the query Names.
func parseNames(answer string) (names, error) {
	var table struct {
		Rows []struct {
			Key  int64  `xml:"key"`
			Name string `xml:"name"`
		} `xml:"row"`
	}
	if err := xml.Unmarshal([]byte(answer), &table); err != nil {
		return names{}, fmt.Errorf("names in an unknown form: %w", err)
	}
	byKey := map[int64][]string{}
	for _, row := range table.Rows {
		name, err := hex.DecodeString(row.Name)
		if err != nil {
			return names{}, fmt.Errorf("name of key %d in an unknown form: %w", row.Key, err)
		}
		byKey[row.Key] = append(byKey[row.Key], string(name))
	}
	return names{byKey: byKey}, nil
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
