//go:build !linux

package driver

import "time"

// suspended is zero where the operating system has no clock that counts sleep and that the standard library reaches:
// deadlines there are late by as long as the machine slept.
func suspended(int64) time.Duration { return 0 }
