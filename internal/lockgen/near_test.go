package lockgen

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pglock-toolkit/pglock/internal/keytemplate"
	"github.com/pglock-toolkit/pglock/internal/testenv/must"
)

// queryWith is a query that takes a lock.
func queryWith(name, lock string) string {
	return fmt.Sprintf("-- name: %s :exec\n-- pglock: lock %s\n;\n", name, lock)
}

func TestLocksThatAreLikelyMisspelledAreErrors(t *testing.T) {
	const key = "-- pglock: key order:{id bigint}\n"
	for sql, want := range map[string]string{
		key + queryWith("A", "ordre:{id}"): "q.sql:3: lock ordre:{id} is near order:{id} (at q.sql:1): if it is misspelled, correct it, " +
			"since it would be another lock; if it is meant, declare it: -- pglock: key ordre:{id bigint}",
		queryWith("A", "orders:{id}") + key:                                        "q.sql:2: lock orders:{id} is near order:{id} (at q.sql:4)",
		key + queryWith("A", "Order:{id}"):                                         "lock Order:{id} is near order:{id}",
		key + queryWith("A", "order-{id}"):                                         "lock order-{id} is near order:{id}",
		queryWith("A", "nightly-report") + queryWith("B", "nigthly-reprot"):        "q.sql:5: lock nigthly-reprot is near nightly-report (at q.sql:2)",
		queryWith("A", "ordre:{id}") + queryWith("B", "order:{id}") + "\n":         "q.sql:5: lock order:{id} is near ordre:{id} (at q.sql:2): if it is misspelled, correct it, since it would be another lock; if it is meant, declare both",
		queryWith("A", "orders:{id}") + queryWith("B", "ordres:{id}") + "\n" + key: "q.sql:2: lock orders:{id} is near order:{id} (at q.sql:8)",
		queryWith("A", "job:{id}") + queryWith("B", "jbo:{id}"):                    "lock jbo:{id} is near job:{id}",
		// Letters outside of ASCII: a Cyrillic o, two that are swapped, and an accent that is a character of its own.
		key + queryWith("A", "\u043erder:{id}"):                              "lock \u043erder:{id} is near order:{id}, which looks like it: \"\\u043erder:{id}\" and \"order:{id}\" (at q.sql:1)",
		queryWith("A", "заказ:{id}") + queryWith("B", "закза:{id}"):          "lock закза:{id} is near заказ:{id} (at q.sql:2)",
		queryWith("A", "caf\u00e9:{id}") + queryWith("B", "cafe\u0301:{id}"): "lock cafe\u0301:{id} is near caf\u00e9:{id}",
	} {
		_, err := Generate(read(sql, all...))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", sql, err, want)
		}
	}
}

// Without sqlc only a key line tells types, and so a misspelled lock looks like one that lacks its key line.
func TestAMisspelledLockWithoutTypesIsNotSentToBeDeclared(t *testing.T) {
	var in Input
	must.Succeed(t, in.ReadAnnotated("q.sql", "-- pglock: key order:{id bigint}\n-- name: A :exec\n-- pglock: lock ordre:{id=$1}\nSELECT $1;\n"))
	in.Options.Package = "locks"
	const want = "q.sql:3: lock ordre:{id} is near order:{id} (at q.sql:1): if it is misspelled, correct it, since it would be another lock; " +
		"if it is meant, declare it: -- pglock: key ordre:{id bigint}"
	if _, err := Generate(in); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestTheSecondOfTwoKeyLinesIsReported(t *testing.T) {
	var in Input
	must.Succeed(t, in.ReadAnnotated("q.sql", "-- pglock: key a\n-- pglock: key a\n-- name: A :exec\nSELECT 1;\n"))
	comments := in.Queries[0].Comments
	in.Comments, in.Queries[0].Comments = comments[1:], comments[:1] // sqlc passes the last above a query, and the plugin finds the others
	in.Options.Package = "locks"
	const want = "q.sql:2: key a is already declared at q.sql:1: declare a template once"
	if _, err := Generate(in); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestNamesThatAreOtherNamesAreNotNear(t *testing.T) {
	for _, pair := range [][2]string{
		{"invoice:{id}", "tenant:{id}"}, {"job:{id}", "jab:{id}"}, {"a:{id}", "b:{id}"}, {"job-1", "job-2"}, {"v1:order:{id}", "v12:order:{id}"},
		{"import-products:{id}", "export-products:{id}"}, {"order:{id}", "order:{id}:item:{nr}"},
		{"daily-report", "weekly-report"}, {"account:open", "account:close"}, {"shop:{id}:in", "shop:{id}:out"},
	} {
		sql := queryWith("A", strings.ReplaceAll(pair[0], "{nr}", "{nr=$1}")) + queryWith("B", strings.ReplaceAll(pair[1], "{nr}", "{nr=$1}"))
		if _, err := Generate(read(sql, all...)); err != nil {
			t.Errorf("%v: %v", pair, err)
		}
	}
	declared := "-- pglock: key order:{id bigint}\n-- pglock: key orders:{id bigint}\n"
	if _, err := Generate(read(declared+queryWith("A", "orders:{id}"), all...)); err != nil {
		t.Errorf("both are declared: %v", err)
	}
}

func TestKeysCanBeDemanded(t *testing.T) {
	in := read("-- pglock: key order:{id bigint}\n"+queryWith("A", "order:{id}")+queryWith("B", "invoice:{id}"), all...)
	in.Options.RequireKeys = true
	const want = "q.sql:6: lock invoice:{id} is not declared, which require_keys demands: write -- pglock: key invoice:{id bigint}"
	if _, err := Generate(in); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func FuzzNearnessIsSymmetric(f *testing.F) {
	f.Add("order:", "ordre:")
	f.Add("nightly-report", "nigthly-reprot")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, errA := keytemplate.Parse(a)
		y, errB := keytemplate.Parse(b)
		if errA != nil || errB != nil {
			t.Skip()
		}
		if one, other := outlineOf(x), outlineOf(y); one.near(other) != other.near(one) || one.near(one) {
			t.Errorf("%q and %q", a, b)
		}
	})
}
