package exporter

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// contentType is the content type of the text format
// (https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format).
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// family is a metric with all its series.
type family struct {
	name, kind, help string
	samples          []sample
}

type sample struct {
	labels []label
	value  float64
}

type label struct{ name, value string }

// gauge returns a family of one series without labels.
func gauge(name, help string, value float64) family {
	return family{name, "gauge", help, []sample{{value: value}}}
}

func counter(name, help string, value int) family {
	return family{name, "counter", help, []sample{{value: float64(value)}}}
}

func (f family) writeTo(w *bytes.Buffer) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", f.name, helpEscapes.Replace(f.help), f.name, f.kind)
	for _, s := range f.samples {
		w.WriteString(f.name)
		s.writeLabels(w)
		w.WriteString(" " + strconv.FormatFloat(s.value, 'g', -1, 64) + "\n")
	}
}

func (s sample) writeLabels(w *bytes.Buffer) {
	if len(s.labels) == 0 {
		return
	}
	separator := "{"
	for _, l := range s.labels {
		fmt.Fprintf(w, `%s%s="%s"`, separator, l.name, valueEscapes.Replace(valid(l.value)))
		separator = ","
	}
	w.WriteString("}")
}

// valid returns a name as a valid label. Names that differ only in invalid UTF-8 share a label, so their series are summed.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

var (
	helpEscapes  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	valueEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)
