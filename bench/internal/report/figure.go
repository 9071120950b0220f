package report

import (
	"fmt"
	"math"
	"strconv"
)

// Figure is a measured value. The zero Figure has no value.
type Figure struct {
	Value float64 `json:"value"`
	Unit  Unit    `json:"unit,omitempty"`
}

// Unit is the unit of a figure.
type Unit string

// The units.
const (
	Count     Unit = "count"
	PerSecond Unit = "1/s"
	Seconds   Unit = "s"
)

// String returns a short text: "176,000/s", "48.1 µs".
func (f Figure) String() string {
	switch f.Unit {
	case "":
		return ""
	case PerSecond:
		return rate(f.Value)
	case Seconds:
		return duration(f.Value)
	}
	return number(f.Value)
}

func rate(perSecond float64) string {
	if perSecond >= 1e6 {
		return number(perSecond/1e6) + " M/s"
	}
	return thousands(perSecond) + "/s"
}

func duration(seconds float64) string {
	switch {
	case seconds < 1e-3:
		return number(seconds*1e6) + " µs"
	case seconds < 1:
		return number(seconds*1e3) + " ms"
	}
	return number(seconds) + " s"
}

// number shows three digits, and whole numbers without a fraction.
func number(x float64) string {
	switch {
	case math.Abs(x) >= 1000:
		return thousands(x)
	case x == math.Trunc(x):
		return strconv.FormatFloat(x, 'f', 0, 64)
	case math.Abs(x) >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case math.Abs(x) >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// thousands shows a whole number in groups of three digits.
func thousands(x float64) string {
	n := int64(math.Round(x))
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%s,%03d", thousands(float64(n/1000)), n%1000)
}
