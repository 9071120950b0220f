package exporter

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// exported is a server whose metrics are exported. The label is empty if it is the only server.
type exported struct {
	label         string
	source        *source
	keys, rowKeys *keyLabels
}

func newExported(ctx context.Context, label string, o Options) *exported {
	return &exported{label, newSource(ctx, o), newKeyLabels(o.MaxKeys), newKeyLabels(o.MaxKeys)}
}

func exportedServers(ctx context.Context, o Options) []*exported {
	if len(o.Servers) == 0 {
		return []*exported{newExported(ctx, "", o)}
	}
	var all []*exported
	for _, s := range o.Servers {
		one := o
		one.Take, one.LockStats, one.Logger = s.Take, s.LockStats, o.Logger.With("server", s.Label)
		all = append(all, newExported(ctx, s.Label, one))
	}
	return all
}

// registry returns the metrics of a scrape. It takes snapshots of all servers concurrently.
func (e *Exporter) registry(ctx context.Context) (*prometheus.Registry, error) {
	states, err := e.states(ctx)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(e.build)
	for i, s := range e.servers {
		labelled := prometheus.Registerer(registry)
		if s.label != "" {
			labelled = prometheus.WrapRegistererWith(prometheus.Labels{"server": valid(s.label)}, registry)
		}
		labelled.MustRegister(collector{states[i], s.keys, s.rowKeys, s.source.waits})
	}
	return registry, nil
}

func (e *Exporter) states(ctx context.Context) ([]state, error) {
	if len(e.servers) == 1 {
		only, err := e.servers[0].source.state(ctx)
		return []state{only}, err
	}
	states, errs := make([]state, len(e.servers)), make([]error, len(e.servers))
	var looking sync.WaitGroup
	for i, s := range e.servers {
		looking.Go(func() { states[i], errs[i] = s.source.stateOrFailure(ctx) })
	}
	looking.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return states, nil
}
