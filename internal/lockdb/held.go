package lockdb

import (
	"fmt"
	"strings"
)

// HeldKey reads from the message of the error with which QueueLocksTx refuses, in whatever language, which of its
// keys is held elsewhere, counted from 1; ok is false for other messages.
func HeldKey(message string) (number int, ok bool) {
	_, rest, _ := strings.Cut(message, "pglock_held_")
	_, err := fmt.Sscan(rest, &number)
	return number, err == nil
}
