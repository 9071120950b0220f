package testenv

import "time"

// init lets the tests of this package, which leave things on purpose, not wait long for their end.
func init() { grace, goroutinePatience = 2*time.Second, 2*time.Second }
