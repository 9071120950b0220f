package mux

import (
	"errors"
	"slices"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// WhenSettled calls then when it is known what the server did with a try or a release that returned err.
func WhenSettled(err error, then func()) {
	open, ok := errors.AsType[*driver.UnsettledError](err)
	if !ok {
		then()
		return
	}
	go func() {
		<-open.Done
		then()
	}()
}

// onlyUnsettled returns err only if it is unsettled. It is for releasing what no caller holds, where a loss does not matter.
func onlyUnsettled(err error) error {
	if open, ok := errors.AsType[*driver.UnsettledError](err); ok {
		return open
	}
	return nil
}

// joinSettled joins errors. If all of them are ErrNotAcquired, so is the result. If some are unsettled, the result is
// unsettled until all of them are settled, and does not match ErrNotAcquired, after which a caller may ask again.
func joinSettled(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	err := errors.Join(errs...)
	switch {
	case len(errs) == 0:
		return nil
	case slices.Equal(errs, slices.Repeat([]error{driver.ErrNotAcquired}, len(errs))):
		return driver.ErrNotAcquired
	case onlyUnsettled(err) == nil:
		return err
	}
	err = errors.Join(slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return errors.Is(err, driver.ErrNotAcquired) })...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, err := range errs {
			if open, ok := errors.AsType[*driver.UnsettledError](err); ok {
				<-open.Done
			}
		}
	}()
	return &driver.UnsettledError{Err: err, Done: done}
}
