package golangmigrate

import (
	"testing"
	"time"
)

// ShortenNativeWait changes nativeWait for one test.
func ShortenNativeWait(t *testing.T, d time.Duration) {
	before := nativeWait
	nativeWait = d
	t.Cleanup(func() { nativeWait = before })
}
