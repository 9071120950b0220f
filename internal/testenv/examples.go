package testenv

import (
	"fmt"
	"os"
	"sync"
)

// forExamples is the database of Go's examples, which get no testing.TB.
var forExamples *DB

var makeForExamples = sync.OnceValue(func() error {
	on, err := shared.host()
	if err == nil {
		forExamples, err = create("Example", on, emptyDatabase)
	}
	return err
})

// ForExamples returns the database that the runnable examples of a test binary share. [Main] drops it, and fails the
// run if they have left something in it.
func ForExamples() *DB {
	if err := makeForExamples(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return forExamples
}

func endExamples() error {
	if forExamples == nil {
		return nil
	}
	return forExamples.cleanUp()
}
