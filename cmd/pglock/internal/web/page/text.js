"use strict";
// Texts and elements. Everything from the server is inserted as text: nothing here makes HTML of it.
const at = id => document.getElementById(id);
const make = (tag, text, cls) => {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (cls) e.className = cls;
  return e;
};
// say sets a text, unless it is there already: then the browser has nothing to do, and a screen reader nothing to say.
const say = (e, text) => { if (e.textContent !== text) e.textContent = text; };
// printable shows control characters, and those that change the direction of writing, as escapes.
const printable = text => String(text).replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cs}\u2028\u2029]/gu,
  c => "\\u" + c.codePointAt(0).toString(16).padStart(4, "0"));
const ageOf = seconds => {
  const s = Math.max(0, seconds);
  if (s < 10) return s.toFixed(1) + "s";
  if (s < 60) return Math.floor(s) + "s";
  if (s < 3600) return Math.floor(s / 60) + "m" + String(Math.floor(s % 60)).padStart(2, "0") + "s";
  return Math.floor(s / 3600) + "h" + String(Math.floor(s % 3600 / 60)).padStart(2, "0") + "m";
};
const clock = text => text.slice(11, 19);
const count = (n, what) => n + " " + what + (n === 1 ? "" : "s");

// now is the server's clock of what is shown. An age is an element that says how long ago something was.
let now = 0;
const age = (then, before = "") => {
  const e = make("span", undefined, "age");
  e.dataset.then = Date.parse(then);
  e.dataset.before = before;
  grow(e);
  return e;
};
const grow = e => say(e, e.dataset.before + ageOf((now - e.dataset.then) / 1000));

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

// List shows items that have an ID. It takes what has changed and leaves the rest alone, with the focus where it was.
class List {
  constructor(parent, build) {
    this.parent = parent;
    this.build = build;
    this.order = [];
    this.items = new Map();
    this.rows = new Map();
  }
  apply(patch) {
    for (const item of patch.set) this.put(item);
    if (patch.order) this.arrange(patch.order);
  }
  put(item) {
    const text = JSON.stringify(item), old = this.rows.get(item.id);
    if (old && this.items.get(item.id) === text) return;
    const row = this.build(item);
    row.dataset.id = item.id;
    this.items.set(item.id, text);
    this.rows.set(item.id, row);
    watcher.observe(row);
    if (!old) return;
    const inside = old.contains(document.activeElement) && document.activeElement;
    if (row.hasAttribute("tabindex")) row.tabIndex = old.tabIndex;
    drop(old);
    old.replaceWith(row);
    if (inside) (inside === old ? row : row.querySelector("a") || row).focus({ preventScroll: true });
  }
  arrange(order) {
    const keep = new Set(order);
    for (const [id, row] of this.rows) {
      if (keep.has(id)) continue;
      drop(row);
      row.remove();
      this.rows.delete(id);
      this.items.delete(id);
    }
    let next = this.parent.firstElementChild;
    for (const id of order) {
      const row = this.rows.get(id);
      if (row === next) { next = next.nextElementSibling; continue; }
      const focused = row.contains(document.activeElement) && document.activeElement;
      this.parent.insertBefore(row, next);
      if (focused) focused.focus({ preventScroll: true });
    }
    this.order = order;
  }
}
function drop(row) { watcher.unobserve(row); seen.delete(row); }
