package monitor

import (
	"cmp"
	"fmt"
)

// OtherLock is a lock that is not an advisory one, as pg_locks describes it. Which fields are set depends on Type.
type OtherLock struct {
	// Type is the locktype of pg_locks, such as "tuple", or "oldest snapshot" if replay on a standby waits for that.
	Type string `json:"type"`
	// DatabaseOID and Database are where the object or row is; 0 and empty for shared ones, and for transactions
	// without a row.
	DatabaseOID uint32 `json:"database_oid"`
	Database    string `json:"database"`
	// Relation is the OID of the relation that is locked, or that the page or row belongs to. A waiter for a row waits
	// for the transaction that changed it. Relation is then the row's table, if the waiter is next in line.
	Relation uint32 `json:"relation"`
	// Name names the relation or, for "object", the catalog that the object is in, with its schema unless that is
	// public. It is empty for relations of databases other than the connection's.
	Name string `json:"name"`
	// Detail is the page and tuple of a row such as "(0,1)", the ID of the transaction, or the OID of the object.
	Detail string `json:"detail"`
}

func (r otherRow) lock(connected string) OtherLock {
	l := OtherLock{Type: r.LockType, DatabaseOID: uint32(value(r.DatabaseOID)), Database: value(r.Database), Relation: uint32(value(r.Relation)),
		Name: value(r.Name)}
	if schema := value(r.Schema); l.Name != "" && schema != "public" && schema != "" && r.LockType != "object" {
		l.Name = schema + "." + l.Name
	}
	if l.Name != "" && l.Database != "" && l.Database != connected {
		l.Name += " in database " + l.Database
	}
	switch r.LockType {
	case "tuple":
		l.Detail = fmt.Sprintf("(%d,%d)", value(r.Page), value(r.Tuple))
	case "transactionid":
		l.Detail = value(r.TransactionID)
	case "virtualxid":
		l.Detail = value(r.VirtualXID)
	case "object":
		l.Detail = fmt.Sprint(value(r.ObjectID))
		l.Name = cmp.Or(l.Name, fmt.Sprintf("catalog %d", value(r.ClassID)))
	default:
		if r.ObjectID != nil {
			l.Detail = fmt.Sprintf("%d/%d/%d", value(r.ClassID), value(r.ObjectID), value(r.Objsubid))
		}
	}
	return l
}

// String names the lock: "relation t", "row (0,1) of t", "transaction 753", "virtual transaction 3/45". Waits for
// several rows that a transaction changed are for the same lock, so its name only says of which table they are: "row of
// t in transaction 753".
func (l OtherLock) String() string {
	switch l.Type {
	case "relation":
		return "relation " + l.relation(true)
	case "extend":
		return "extension of " + l.relation(true)
	case "frozenid":
		return "frozen IDs of database " + cmp.Or(l.Database, fmt.Sprint(l.DatabaseOID))
	case "tuple":
		return fmt.Sprintf("row %s of %s", l.Detail, l.relation(true))
	case "transactionid":
		return l.transaction()
	case "virtualxid":
		return "virtual transaction " + l.Detail
	case "object":
		return fmt.Sprintf("object %s of %s", l.Detail, l.Name)
	}
	return l.Type
}

func (l OtherLock) transaction() string {
	if l.Relation == 0 {
		return "transaction " + l.Detail
	}
	text := fmt.Sprintf("row of %s in transaction %s", l.relation(false), l.Detail)
	if l.Name == "" && l.Database != "" {
		text += " in database " + l.Database
	}
	return text
}

// relation names the relation, or says its OID and, if asked to, where it is.
func (l OtherLock) relation(where bool) string {
	switch {
	case l.Name != "":
		return l.Name
	case l.Database == "" || !where:
		return fmt.Sprint(l.Relation)
	}
	return fmt.Sprintf("%d in database %s", l.Relation, l.Database)
}
