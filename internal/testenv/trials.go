package testenv

import (
	"math"
	"os"
	"strconv"
	"testing"
)

// trialsVariable is the environment variable that multiplies the trials of tests that look for rare faults.
const trialsVariable = "PGLOCK_TEST_TRIALS"

// Trials returns how often a test repeats something that may go wrong rarely: PGLOCK_TEST_TRIALS times usual, and at
// least once.
func Trials(t testing.TB, usual int) int {
	t.Helper()
	text := os.Getenv(trialsVariable)
	if text == "" {
		return usual
	}
	times, err := strconv.ParseFloat(text, 64)
	if err != nil || !(times > 0 && times <= 1_000_000) {
		t.Fatalf("%s is %q, want how many times the usual number of trials, such as 4 or 0.1", trialsVariable, text)
	}
	return int(math.Ceil(times * float64(usual)))
}
