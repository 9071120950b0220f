"use strict";
// The keys, the locks in rows, and the journal.
const tableRow = (...cells) => {
  const row = make("div", undefined, "grid line");
  row.setAttribute("role", "row");
  for (const [name, cls, ...parts] of cells) {
    const e = make("span", undefined, cls);
    e.setAttribute("role", "cell");
    if (name) e.dataset.name = name;
    e.append(...parts);
    row.append(e);
  }
  return row;
};
const holderOf = k => k.holder ? [who(k.holder), ...(k.held > 1 ? [" and " + (k.held - 1) + " more"] : [])] : [make("span", "free", "dim")];
const waitsOf = k => [["waiters", "n", k.waiting ? String(k.waiting) : ""], ["longest wait", "n", ...(k.longest_since ? [waited(k.longest_since)] : [])]];

let idleKeys = false; // whether keys without waiters are shown
const keys = new List(at("keys"), k => {
  const holder = holderOf(k);
  if (k.blocked) {
    const by = k.blocked.pid || k.blocked.gid ? (k.blocked.soft ? " behind " : " blocked by ") + session(k.blocked) + ", " : " waits for ";
    holder.push(make("span", by + printable(k.blocked.lock.label), "warn"));
  }
  const row = tableRow(["", "key", lockLink(k), make("span", " " + printable(k.database), "dim")], ["", "holder", ...holder],
    ["", "mode", printable(k.mode)], ["held since", "", k.seen_since ? clock(k.seen_since) : ""], ...waitsOf(k));
  if (k.code) row.title = printable(k.code);
  if (!k.waiting) row.classList.add("idle");
  return row;
}, k => k.waiting || k.blocked || idleKeys);

const rows = new List(at("rows"), r => tableRow(["", "key", lockLink(r)], ["", "holder", ...holderOf(r), make("span", " " + printable(r.mode), "dim")],
  ["held since", "", r.since ? clock(r.since) : ""], ["lease left", "n", ...(r.lease_until ? [age(r.lease_until, "", true)] : [])],
  ["generation", "n", r.generation], ...waitsOf(r)));

at("idle-keys").addEventListener("click", () => { idleKeys = !idleKeys; showKeys(); });
function showKeys() {
  keys.arrange();
  const idle = [...keys.items.values()].filter(k => !k.waiting && !k.blocked).length;
  const button = at("idle-keys");
  button.hidden = !idle;
  button.setAttribute("aria-expanded", String(idleKeys));
  say(button, (idleKeys ? "▾ " : "▸ ") + count(idle, "key") + " without waiters");
  at("keys-section").hidden = !keys.order.length;
  at("keys-table").hidden = !at("keys").children.length;
}

let journalLines = 0;
const openGroups = new Set();
const journal = new List(at("journal"), e => {
  const li = make("li", undefined, e.class + " " + e.kind), t = make("time", clock(e.at)), body = make("div");
  t.dateTime = e.at;
  if (e.until !== e.at) t.append(make("span", "–" + clock(e.until), "until"));
  if (e.key) body.append(lockLink({ key: e.key, label: e.key }), " ");
  if (e.count > 1) {
    const open = openGroups.has(e.id), button = make("button", (open ? "▾ " : "▸ ") + printable(e.text), "quiet-button");
    button.type = "button";
    button.dataset.name = "group";
    button.setAttribute("aria-expanded", String(open));
    button.addEventListener("click", () => { if (!openGroups.delete(e.id)) openGroups.add(e.id); journal.rebuild(e.id); });
    body.append(button);
    if (open) {
      const list = make("ul");
      for (const text of e.some) list.append(make("li", printable(text)));
      if (e.some.length < e.count) list.append(make("li", "… " + (e.count - e.some.length) + " more", "dim"));
      body.append(list);
    }
  } else body.append(...textOf(e));
  li.append(t, body);
  return li;
}, () => shownInJournal());

// textOf shortens a text, for which it adds a button: of most events to what matters most, and of all to some length.
const longText = 160;
function textOf(e) {
  const full = printable(e.full || e.text), text = printable(e.text);
  if (full === text && text.length <= longText) return [text];
  const open = openGroups.has(e.id), button = make("button", open ? "less" : "more", "quiet-button inline");
  button.type = "button";
  button.dataset.name = "group";
  button.setAttribute("aria-expanded", String(open));
  button.addEventListener("click", () => { if (!openGroups.delete(e.id)) openGroups.add(e.id); journal.rebuild(e.id); });
  return [open ? full + " " : text.length > longText ? text.slice(0, longText) + "… " : text + " ", button];
}

let lines = 0, moreLines = false;
const narrow = matchMedia("(max-width: 60rem)");
const fewLines = 12; // on a narrow page, whose journal does not scroll on its own
function shownInJournal() {
  journalLines++;
  return moreLines || !narrow.matches || ++lines <= fewLines;
}
function showJournal() {
  lines = journalLines = 0;
  const shown = journal.arrange();
  at("no-journal").hidden = shown > 0;
  at("more-journal").hidden = shown === journalLines;
  say(at("more-journal"), (journalLines - shown) + " earlier lines");
}
at("more-journal").addEventListener("click", () => { moreLines = true; showJournal(); });
narrow.addEventListener("change", () => showJournal());
