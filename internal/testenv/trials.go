package testenv

import (
	"os"
	"strconv"
	"testing"
)

// trialsVariable is the environment variable that multiplies the trials of tests that look for rare faults.
const trialsVariable = "PGLOCK_TEST_TRIALS"

// Trials returns how often a test repeats something that may go wrong rarely: PGLOCK_TEST_TRIALS times usual.
func Trials(t testing.TB, usual int) int {
	t.Helper()
	text := os.Getenv(trialsVariable)
	if text == "" {
		return usual
	}
	times, err := strconv.Atoi(text)
	if err != nil || times < 1 {
		t.Fatalf("%s is %q, want how many times the usual number of trials", trialsVariable, text)
	}
	return times * usual
}
