// Package must fails tests whose preparations do not work. It imports nothing of ours, so that every package's tests
// can use it.
package must

import "testing"

// Succeed ends the test if err is not nil.
func Succeed(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
