package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pglock-toolkit/pglock/bench/internal/contest"
)

// judge prints the ratios, and returns an error for each that is too low.
func judge(against string, ratios map[string]contest.Series) error {
	if len(ratios) == 0 {
		return fmt.Errorf("%s has none of these rows", against)
	}
	var slower []error
	for _, name := range slices.Sorted(maps.Keys(ratios)) {
		low, high := ratios[name].Quartiles()
		median := ratios[name].Median()
		fmt.Printf("  %-40s %5.2f  %.2f–%.2f\n", name, median, low, high)
		if median < least {
			slower = append(slower, fmt.Errorf("%s: %.2f times as fast as %s, and at least %.2f is asked", name, median, against, least))
		}
	}
	return errors.Join(slower...)
}
