package testenv

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
)

// examples replaces the testing.TB that Go's examples do not get.
var examples exampleTB

// ForExamples returns the database that the runnable examples of a test binary share. [Main] drops it, and fails the
// run if they have left something in it.
func ForExamples() *DB {
	examples.once.Do(func() { examples.db = Database(&examples) })
	return examples.db
}

// exampleTB has the methods of testing.TB that this package calls. Its embedded interface is nil.
type exampleTB struct {
	testing.TB
	once     sync.Once
	db       *DB
	cleanups []func()
	errs     []error
}

func (*exampleTB) Helper() {}

func (*exampleTB) Name() string { return "Example" }

func (e *exampleTB) Cleanup(f func()) { e.cleanups = append(e.cleanups, f) }

func (e *exampleTB) Errorf(format string, args ...any) {
	e.errs = append(e.errs, fmt.Errorf("the examples: "+format, args...))
}

func (e *exampleTB) Error(args ...any) { e.Errorf("%s", fmt.Sprint(args...)) }

func (*exampleTB) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

func (e *exampleTB) Fatal(args ...any) { e.Fatalf("%s", fmt.Sprint(args...)) }

func (e *exampleTB) end() error {
	for _, cleanup := range e.cleanups {
		cleanup()
	}
	return errors.Join(e.errs...)
}
