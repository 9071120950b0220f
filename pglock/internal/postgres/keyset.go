package postgres

import (
	"slices"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// keySet is the keys of a grant. A single one, which is what most have, needs no memory beside it.
type keySet struct {
	oneNumber [1]int64
	oneSpace  [1]int16
	several   *keyArrays // nil when there is one
}

// keyArrays are keys in the form that the statements take.
type keyArrays struct {
	spaces  []int16
	numbers []int64
}

func newKeySet(keys []driver.Key) (k keySet) {
	if len(keys) == 1 {
		k.oneSpace[0], k.oneNumber[0] = int16(keys[0].Space), keys[0].Number
		return k
	}
	k.several = &keyArrays{make([]int16, len(keys)), make([]int64, len(keys))}
	for i, key := range keys {
		k.several.spaces[i], k.several.numbers[i] = int16(key.Space), key.Number
	}
	return k
}

func (k *keySet) len() int {
	if k.several != nil {
		return len(k.several.numbers)
	}
	return 1
}

// numbers and spaces are not to be written to.
func (k *keySet) numbers() []int64 {
	if k.several != nil {
		return k.several.numbers
	}
	return k.oneNumber[:]
}

func (k *keySet) spaces() []int16 {
	if k.several != nil {
		return k.several.spaces
	}
	return k.oneSpace[:]
}

func (k *keySet) id(i int) driver.KeyID {
	return driver.KeyID{Space: driver.Space(k.spaces()[i]), Number: k.numbers()[i]}
}

// keep reduces the set to the keys for which got is true. Arrays that somebody has stay as they are.
func (k *keySet) keep(got []bool) {
	if len(got) == k.len() && !slices.Contains(got, false) {
		return
	}
	spaces, numbers := k.spaces(), k.numbers()
	kept := &keyArrays{}
	for i := range got {
		if got[i] {
			kept.spaces, kept.numbers = append(kept.spaces, spaces[i]), append(kept.numbers, numbers[i])
		}
	}
	k.several = kept
}
