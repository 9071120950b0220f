package rowlock

import (
	"slices"
	"testing"
)

func TestListsAreArraysOfTheServer(t *testing.T) {
	var numbers, booleans, empty list
	for _, n := range []int64{0, -1, 9223372036854775807, -9223372036854775808} {
		numbers.add(n)
		booleans.addBool(n < 0)
	}
	if numbers.String() != "{0,-1,9223372036854775807,-9223372036854775808}" || booleans.String() != "{f,t,f,t}" || empty.String() != "{}" {
		t.Errorf("%s, %s, %s", numbers, booleans, empty)
	}
	read, err := numbersOf(numbers.String())
	if err != nil || !slices.Equal(read, []int64{0, -1, 9223372036854775807, -9223372036854775808}) {
		t.Errorf("%v, %v", read, err)
	}
	if read, err := numbersOf("{}"); len(read) > 0 || err != nil {
		t.Errorf("%v, %v", read, err)
	}
	for _, text := range []string{"", "{1", "1}", "{1,}", "{NULL}", "{9223372036854775808}"} {
		if read, err := numbersOf(text); err == nil {
			t.Errorf("%s is read as %v", text, read)
		}
	}
}
