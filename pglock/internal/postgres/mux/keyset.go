package mux

import (
	"slices"

	"github.com/pglock-toolkit/pglock/pglock/driver"
)

// keySet is the keys of a grant. A single one, which is what most have, needs no memory beside it.
type keySet struct {
	number  int64
	space   int16
	several *keyArrays // nil when there is one
}

// keyArrays are keys in the form that statements take.
type keyArrays struct {
	spaces  []int16
	numbers []int64
}

func newKeySet(keys []driver.Key) keySet {
	if len(keys) == 1 {
		return keySet{number: keys[0].Number, space: int16(keys[0].Space)}
	}
	k := &keyArrays{make([]int16, len(keys)), make([]int64, len(keys))}
	for i, key := range keys {
		k.spaces[i], k.numbers[i] = int16(key.Space), key.Number
	}
	return keySet{several: k}
}

func (k *keySet) len() int {
	if k.several != nil {
		return len(k.several.numbers)
	}
	return 1
}

func (k *keySet) id(i int) driver.KeyID {
	if k.several != nil {
		return driver.KeyID{Space: driver.Space(k.several.spaces[i]), Number: k.several.numbers[i]}
	}
	return driver.KeyID{Space: driver.Space(k.space), Number: k.number}
}

// arrays are not to be written to.
func (k *keySet) arrays() keyArrays {
	if k.several != nil {
		return *k.several
	}
	return keyArrays{[]int16{k.space}, []int64{k.number}}
}

// keep reduces the set to the keys for which got is true. Arrays that somebody has stay as they are.
func (k *keySet) keep(got []bool) {
	if !slices.Contains(got, false) {
		return
	}
	all, kept := k.arrays(), &keyArrays{}
	for i := range got {
		if got[i] {
			kept.spaces, kept.numbers = append(kept.spaces, all.spaces[i]), append(kept.numbers, all.numbers[i])
		}
	}
	k.several = kept
}
