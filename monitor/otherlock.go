package monitor

import (
	"cmp"
	"fmt"
)

// OtherLock is a lock that is not an advisory one, as pg_locks describes it. Which fields are set depends on Type.
type OtherLock struct {
	// Type is the locktype of pg_locks, such as "relation", "tuple", "transactionid", "virtualxid" or "object".
	Type string `json:"type"`
	// DatabaseOID and Database are where the object or row is; 0 and empty for shared ones, and for transactions without a row.
	DatabaseOID uint32 `json:"database_oid"`
	Database    string `json:"database"`
	// Relation is the OID of the relation that is locked, or that the page or row belongs to.
	Relation uint32 `json:"relation"`
	// Schema and Name name the relation or, for "object", the catalog that the object is in. They are empty for relations
	// of databases other than the connection's, and of transactions that have not ended.
	Schema string `json:"schema"`
	Name   string `json:"name"`
	// Page and Tuple are the position of a row in its relation.
	Page  *int32 `json:"page"`
	Tuple *int16 `json:"tuple"`
	// TransactionID and VirtualXID identify the transaction that is waited for. A session that waits for a row waits for
	// the transaction that changed it; the fields above then say which row that is, if the session is next in line for it.
	TransactionID string `json:"transaction_id"`
	VirtualXID    string `json:"virtual_xid"`
	// ClassID, ObjectID and Objsubid identify an object that is not a relation.
	ClassID  uint32 `json:"class_id"`
	ObjectID uint32 `json:"object_id"`
	Objsubid int16  `json:"objsubid"`
}

// String names the lock: "relation t", "row (0,1) of t", "transaction 753", "virtual transaction 3/45". Relations of
// schema public are written without it. Waits for several rows that a transaction changed are for the same lock, so its name
// only says of which table they are: "row of t in transaction 753".
func (l OtherLock) String() string {
	switch l.Type {
	case "relation":
		return "relation " + l.relation()
	case "extend":
		return "extension of " + l.relation()
	case "frozenid":
		return "frozen IDs of database " + l.database()
	case "page":
		return fmt.Sprintf("page %d of %s", value(l.Page), l.relation())
	case "tuple":
		return fmt.Sprintf("row (%d,%d) of %s", value(l.Page), value(l.Tuple), l.relation())
	case "transactionid":
		return l.transaction()
	case "virtualxid":
		return "virtual transaction " + l.VirtualXID
	case "object", "userlock":
		return fmt.Sprintf("object %d of %s", l.ObjectID, cmp.Or(l.Name, fmt.Sprintf("catalog %d", l.ClassID)))
	}
	return l.Type
}

func (l OtherLock) transaction() string {
	if l.Relation == 0 {
		return "transaction " + l.TransactionID
	}
	where := ""
	if l.Name == "" && l.Database != "" {
		where, l.Database = " in database "+l.Database, ""
	}
	return fmt.Sprintf("row of %s in transaction %s%s", l.relation(), l.TransactionID, where)
}

func (l OtherLock) relation() string {
	switch {
	case l.Name == "" && l.Database == "":
		return fmt.Sprint(l.Relation)
	case l.Name == "":
		return fmt.Sprintf("%d in database %s", l.Relation, l.Database)
	case l.Schema == "public" || l.Schema == "":
		return l.Name
	}
	return l.Schema + "." + l.Name
}

func (l OtherLock) database() string { return cmp.Or(l.Database, fmt.Sprint(l.DatabaseOID)) }

// same reports whether both are the same lock.
func (l OtherLock) same(other OtherLock) bool {
	samePlace := l.Type == "transactionid" || value(l.Page) == value(other.Page) && value(l.Tuple) == value(other.Tuple)
	l.Page, l.Tuple, other.Page, other.Tuple = nil, nil, nil, nil
	return samePlace && l == other
}
