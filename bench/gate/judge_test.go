package main

import (
	"context"
	"strings"
	"testing"
)

func TestGateFailsForTheFigureThatHasFallen(t *testing.T) {
	calls := 0
	ratios, err := alternate(t.Context(), 3, func(_ context.Context, theOther bool) (figures, error) {
		calls++
		if theOther {
			return figures{"same": 5, "slower": 10, "gone": 1}, nil
		}
		return figures{"same": 5, "slower": 8, "new": 1}, nil
	})
	if err != nil || calls != 6 || len(ratios) != 2 {
		t.Fatalf("%v, %v after %d runs", ratios, err, calls)
	}
	if err := judge("v0.1.0", ratios); err == nil || !strings.Contains(err.Error(), "slower: 0.80 times") || strings.Contains(err.Error(), "same") {
		t.Errorf("judge = %v", err)
	}
	if judge("v0.0.1", nil) == nil {
		t.Error("nothing was compared, and that is no error")
	}
}
