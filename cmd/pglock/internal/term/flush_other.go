//go:build !linux

package term

import "os"

// Flush does nothing: only on Linux is it known how to drop what was typed.
func Flush(*os.File) {}
