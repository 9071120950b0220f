package mux

import (
	"errors"

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
