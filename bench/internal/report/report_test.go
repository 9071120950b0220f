package report

import (
	"testing"
)

func TestTargetsAreMetOrMissed(t *testing.T) {
	for _, test := range []struct {
		bound        Bound
		value, limit float64
		reached      bool
	}{
		{AtMost, 10, 10, true}, {AtMost, 10.1, 10, false},
		{AtLeast, 9, 9, true}, {AtLeast, 8.9, 9, false},
	} {
		line := Line{Ours: Figure{test.value, Count}}.Aim(test.bound, test.limit)
		if line.Target.Reached != test.reached {
			t.Errorf("%v %s %v: reached is %t", test.value, test.bound, test.limit, line.Target.Reached)
		}
	}
}
