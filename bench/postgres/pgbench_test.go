package main

import "testing"

func TestTheRateIsReadFromBothWordings(t *testing.T) {
	for output, want := range map[string]float64{
		"tps = 12.5 (without initial connection time)\n":                                                12.5,
		"tps = 9.1 (including connections establishing)\ntps = 17 (excluding connections establishing)": 17,
	} {
		if got, err := transactionRate(output); got != want || err != nil {
			t.Errorf("%q: got %v, %v; want %v", output, got, err, want)
		}
	}
	if _, err := transactionRate("number of transactions actually processed: 0"); err == nil {
		t.Error("there is no error when there is no rate")
	}
}
