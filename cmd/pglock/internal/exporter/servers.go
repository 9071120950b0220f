package exporter

import (
	"context"
	"sync"
)

// exported is a server whose metrics are exported. The label is empty if it is the only server.
type exported struct {
	label  string
	source *source
	keys   *keyLabels
}

func exportedServers(ctx context.Context, o Options) []*exported {
	if len(o.Servers) == 0 {
		return []*exported{{source: newSource(ctx, o), keys: newKeyLabels(o.MaxKeys)}}
	}
	var all []*exported
	for _, s := range o.Servers {
		one := o
		one.Take, one.Logger = s.Take, o.Logger.With("server", s.Label)
		all = append(all, &exported{s.Label, newSource(ctx, one), newKeyLabels(o.MaxKeys)})
	}
	return all
}

// families returns the metrics of a scrape. It takes snapshots of all servers concurrently.
func (e *Exporter) families(ctx context.Context) ([]family, error) {
	states, err := e.states(ctx)
	if err != nil {
		return nil, err
	}
	all := familySet{index: map[string]int{}}
	for i, s := range e.servers {
		all.add(s.label, families(states[i], s.keys, e.version))
	}
	return all.families, nil
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

// familySet merges the families of several servers, so that each appears once, with all series.
type familySet struct {
	families []family
	index    map[string]int // of each family, by its name
}

func (j *familySet) add(server string, families []family) {
	for _, f := range families {
		at, known := j.index[f.name]
		if known && f.name == buildInfo {
			continue
		}
		for i, s := range f.samples {
			if server != "" && f.name != buildInfo {
				f.samples[i].labels = append([]label{{"server", server}}, s.labels...)
			}
		}
		if known {
			j.families[at].samples = append(j.families[at].samples, f.samples...)
		} else {
			j.index[f.name], j.families = len(j.families), append(j.families, f)
		}
	}
}
