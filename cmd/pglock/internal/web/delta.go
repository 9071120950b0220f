package web

import (
	"encoding/json"
	"slices"
)

// answer is the answer to a page's request: a whole state, or the changes since a state that the page has.
type answer struct {
	head
	// Tag names the state, and Since the state that the changes refer to. Since is empty for a whole state.
	Tag   string `json:"tag"`
	Since string `json:"since"`

	Tree   patch `json:"tree"`
	Keys   patch `json:"keys"`
	Rows   patch `json:"rows"`
	Events patch `json:"events"`
}

// patch changes a list. Set has the items that are new or different. Order has the IDs of all items, or is null if they
// are unchanged.
type patch struct {
	Order []string          `json:"order"`
	Set   []json.RawMessage `json:"set"`
}

// encodedState is a state with its items encoded as JSON.
type encodedState struct {
	head
	tag                      string
	tree, keys, rows, events list
}

type list struct {
	order []string
	items map[string]json.RawMessage
}

func encodeState(s *state, tag string) (*encodedState, error) {
	f := &encodedState{head: s.head, tag: tag}
	var err error
	if f.tree, err = encodeList(s.Tree, func(n *node) string { return n.ID }); err != nil {
		return nil, err
	}
	if f.keys, err = encodeList(s.Keys, func(k *key) string { return k.ID }); err != nil {
		return nil, err
	}
	if f.rows, err = encodeList(s.Rows, func(r *rowLock) string { return r.ID }); err != nil {
		return nil, err
	}
	f.events, err = encodeList(s.Events, func(e *event) string { return e.ID })
	return f, err
}

func encodeList[T any](items []T, id func(*T) string) (list, error) {
	l := list{make([]string, 0, len(items)), make(map[string]json.RawMessage, len(items))}
	for i := range items {
		text, err := json.Marshal(items[i])
		if err != nil {
			return l, err
		}
		l.order = append(l.order, id(&items[i]))
		l.items[l.order[i]] = text
	}
	return l, nil
}

// answer returns the changes since before, or the whole state if before is nil.
func (f *encodedState) answer(before *encodedState) ([]byte, error) {
	a := answer{head: f.head, Tag: f.tag}
	if before == nil {
		before = &encodedState{}
	}
	a.Since = before.tag
	a.Tree, a.Keys = f.tree.since(before.tree), f.keys.since(before.keys)
	a.Rows, a.Events = f.rows.since(before.rows), f.events.since(before.events)
	return json.Marshal(a)
}

func (l list) since(before list) patch {
	p := patch{Set: []json.RawMessage{}}
	if before.items == nil || !slices.Equal(l.order, before.order) {
		p.Order = l.order
	}
	for _, id := range l.order {
		if text := l.items[id]; string(before.items[id]) != string(text) {
			p.Set = append(p.Set, text)
		}
	}
	return p
}
