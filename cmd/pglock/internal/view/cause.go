package view

import (
	"context"
	"errors"
)

// Cause returns the text of the innermost error, or late if the time for an answer was over. The outer errors name the
// server, which is shown beside it, and each address of the server, with the same text.
func Cause(err error, late string) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return late
	}
	for {
		inner := errors.Unwrap(err)
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			inner = joined.Unwrap()[0]
		}
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}
