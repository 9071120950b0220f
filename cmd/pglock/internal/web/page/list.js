"use strict";
// now is the server's clock of what is shown. An age is an element that says how long ago something was, or for how long
// something still lasts.
let now = 0;
const age = (then, before = "", until = false) => {
  const e = make("span", undefined, "age");
  e.dataset.then = Date.parse(then);
  e.dataset.before = before;
  if (until) e.dataset.until = "1";
  grow(e);
  return e;
};
const grow = e => {
  const seconds = (now - e.dataset.then) / 1000;
  if (e.dataset.until) say(e, seconds > 0 ? "over for " + ageOf(seconds) : ageOf(-seconds));
  else say(e, e.dataset.before + ageOf(seconds));
  if (e.dataset.heat) {
    const heat = heatOf(seconds);
    if (e.dataset.heat !== heat) e.dataset.heat = heat;
  }
};
// A wait is the more urgent the longer it is.
const heatOf = seconds => seconds < 10 ? "0" : seconds < 60 ? "1" : "2";
const waited = since => {
  const e = age(since);
  e.dataset.heat = "0";
  grow(e);
  return e;
};

// Only the ages in rows that are seen grow at once; the others do when they come into sight, and now and then, for those
// who do not look.
const seen = new Set();
const watcher = new IntersectionObserver(entries => {
  for (const entry of entries) {
    if (entry.isIntersecting) { seen.add(entry.target); ages(entry.target); } else seen.delete(entry.target);
  }
});
const ages = row => { for (const e of row.getElementsByClassName("age")) grow(e); };
const everyAge = 20;
let ticks = 0;
function tick() {
  if (++ticks % everyAge === 0) for (const e of document.getElementsByClassName("age")) grow(e);
  else seen.forEach(ages);
}

// List shows items that have an ID. It rebuilds what has changed and leaves the rest alone, with the focus where it was. Only
// the items that pass shown have a row.
class List {
  constructor(parent, build, shown = () => true) {
    this.parent = parent;
    this.build = build;
    this.shown = shown;
    this.order = [];
    this.items = new Map();
    this.rows = new Map();
  }
  apply(items) {
    const before = this.items;
    this.items = new Map(items.map(item => [item.id, item]));
    this.order = [...this.items.keys()];
    for (const item of items) {
      if (this.rows.has(item.id) && JSON.stringify(before.get(item.id)) !== JSON.stringify(item)) this.rebuild(item.id);
    }
    this.arrange();
  }
  rebuild(id) {
    const old = this.rows.get(id), row = this.make(id);
    const inside = old.contains(document.activeElement) && document.activeElement;
    if (row.hasAttribute("tabindex")) row.tabIndex = old.tabIndex;
    drop(old);
    old.replaceWith(row);
    if (!inside) return;
    const same = inside.dataset.name && row.querySelector('[data-name="' + inside.dataset.name + '"]');
    (inside === old ? row : same || row.querySelector("a") || row).focus({ preventScroll: true });
  }
  make(id) {
    const row = this.build(this.items.get(id));
    row.dataset.id = id;
    this.rows.set(id, row);
    watcher.observe(row);
    return row;
  }
  arrange() {
    const visible = this.order.filter(id => this.shown(this.items.get(id)));
    const keep = new Set(visible);
    for (const [id, row] of this.rows) {
      if (keep.has(id)) continue;
      drop(row);
      row.remove();
      this.rows.delete(id);
    }
    let next = this.parent.firstElementChild;
    for (const id of visible) {
      const row = this.rows.get(id) || this.make(id);
      if (row === next) { next = next.nextElementSibling; continue; }
      const focused = row.contains(document.activeElement) && document.activeElement;
      this.parent.insertBefore(row, next);
      if (focused) focused.focus({ preventScroll: true });
    }
    return visible.length;
  }
}
function drop(row) { watcher.unobserve(row); seen.delete(row); }
