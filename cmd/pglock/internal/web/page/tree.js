"use strict";
// The blocking tree: a table in which each session is below the one it waits for.
const opened = new Set(); // the IDs of folds and of rows whose details are shown

function lockLink(lock) {
  if (!lock.key) return make("span", printable(lock.label), "lock");
  const a = make("a", printable(lock.label), "lock");
  a.href = link({ key: lock.key });
  a.dataset.name = "lock";
  a.addEventListener("click", e => { e.preventDefault(); e.stopPropagation(); choose({ key: lock.key }); });
  return a;
}
const cell = (cls, ...parts) => {
  const e = make("span", undefined, cls);
  e.setAttribute("role", "gridcell");
  e.append(...parts);
  return e;
};

// A row can have the focus with Tab if it is the current one: the arrow keys go on from there.
const tree = new List(at("tree"), n => {
  const row = make("div", undefined, "grid line");
  row.setAttribute("role", "row");
  row.setAttribute("aria-level", n.depth + 1);
  row.tabIndex = -1;
  row.style.setProperty("--depth", Math.min(n.depth, 16));
  if (!n.wait) row.classList.add("top");
  if (n.fold) row.setAttribute("aria-expanded", String(opened.has(n.id)));
  row.append(nameCell(n), waitsFor(n), cell("mode", printable(n.mode)), waitedCell(n),
    cell("n behind", n.behind ? String(n.behind) : ""));
  if (n.fold && opened.has(n.id) && n.fold.sent < n.fold.count) {
    row.append(cell("details dim", "The first " + n.fold.sent + " of " + n.fold.count + " are shown."));
  }
  if (!n.fold && opened.has(n.id)) row.append(detailsOf(n));
  for (const e of row.querySelectorAll("a, button")) e.tabIndex = opened.has(n.id) ? 0 : -1;
  return row;
}, n => !n.in || opened.has(n.in));

function nameCell(n) {
  const mark = make("span", opened.has(n.id) ? "▾" : "▸", "mark");
  mark.setAttribute("aria-hidden", "true");
  if (n.fold) {
    return cell("name fold", mark, make("span", countOf(n.fold), "who"), " ",
      make("span", foldNames(n.fold), "dim short"));
  }
  const e = cell("name", mark);
  if (n.deadlock) e.append(make("span", "deadlock", "tag bad-tag"), " ");
  e.append(who(n));
  if (!n.wait && n.state) {
    const state = make("span", printable(n.state).replace("in transaction", "in tx") + " ", "dim short");
    if (n.state_since) state.append(age(n.state_since));
    e.append(" ", state);
  }
  return e;
}

const countOf = fold => fold.count + (fold.first.holder ? " processes" : " sessions");
function foldNames(fold) {
  const [first, last] = [fold.first, fold.last].map(s => s.application ? printable(s.application) : session(s));
  return first === last ? first : first + " … " + last;
}

function waitsFor(n) {
  const e = cell(n.wait && n.wait.again ? "for again" : "for");
  if (!n.wait) {
    if (n.holds) e.append(make("span", "holds ", "dim"), lockLink(n.holds));
    return e;
  }
  if (n.wait.again) {
    const same = make("span", "″", "dim same");
    same.setAttribute("aria-hidden", "true");
    e.append(same, make("span", printable(n.wait.lock.label), "apart"));
  } else e.append(lockLink(n.wait.lock));
  if (n.wait.soft) e.append(make("span", " in the queue", "dim"));
  return e;
}

function waitedCell(n) {
  const e = cell("n waited");
  if (!n.wait || !n.wait.since) return e;
  if (n.fold && n.fold.youngest && Date.parse(n.fold.youngest) - Date.parse(n.wait.since) >= 1000) e.append(age(n.fold.youngest), "–");
  e.append(waited(n.wait.since));
  return e;
}

// detailsOf returns what is shown below an opened row.
function detailsOf(n) {
  const list = make("dl"), box = cell("details");
  const add = (name, ...parts) => {
    if (!parts.length || parts[0] === "") return;
    const value = make("dd");
    value.append(...parts);
    list.append(make("dt", name), value);
  };
  const time = text => [clock(text) + " " + zone + ", ", age(text), " ago"];
  if (n.wait) {
    const w = n.wait, by = w.pid || w.gid || w.holder ? session(w) : "unknown";
    add("waits for", lockLink(w.lock), " (" + printable(n.mode) + ")", w.since ? " since " + clock(w.since) + " " + zone : "");
    add(w.soft ? "behind" : "blocked by", by + (w.more ? " and " + w.more + " more" : "") + (w.soft ? ", ahead in the queue" : ""));
  }
  if (n.state) add("state", printable(n.state), ...(n.state_since ? [" since ", ...time(n.state_since)] : []));
  if (n.query) add(n.state === "active" ? "runs" : "ran last", make("code", printable(n.query)));
  if (n.code) add("took its lock", printable(n.code));
  if (n.seen_since) add("seen holding", "since ", ...time(n.seen_since));
  if (n.lease_until) add("lease left", age(n.lease_until, "", true));
  add("role", printable(n.user) + (n.database ? ", database " + printable(n.database) : "") + (n.client ? ", client " + printable(n.client) : ""));
  if (n.session_since) add(n.holder ? "process" : "session", "since ", ...time(n.session_since));
  box.append(list);
  if (n.command && !moment) {
    const line = make("div", undefined, "command"), code = make("code", n.command), button = make("button", "Copy command");
    button.type = "button";
    button.dataset.name = "copy";
    button.addEventListener("click", e => { e.stopPropagation(); copy(n.command, button, code); });
    line.append(code, button);
    box.append(line);
  }
  return box;
}

// toggle opens or closes the details of a row, or a fold.
function toggle(row) {
  const id = row.dataset.id;
  if (!opened.delete(id)) opened.add(id);
  tree.rebuild(id);
  tree.arrange();
}
at("tree").addEventListener("click", e => {
  const row = e.target.closest("[role=row]");
  if (!row || e.target.closest("a, button, .details") || String(getSelection())) return;
  row.focus({ preventScroll: true });
  toggle(row);
});

// enter makes the tree one stop of the Tab key: at the row that had the focus last, or the first one.
function enter() {
  const rows = at("tree").children;
  if (rows.length && !at("tree").querySelector(':scope > [tabindex="0"]')) rows[0].tabIndex = 0;
}
at("tree").addEventListener("focusin", e => {
  const row = e.target.closest("[role=row]");
  for (const old of at("tree").querySelectorAll(':scope > [tabindex="0"]')) old.tabIndex = -1;
  row.tabIndex = 0;
});
at("tree").addEventListener("keydown", e => {
  const row = e.target.closest("[role=row]"), level = r => Number(r.getAttribute("aria-level"));
  if (!row || e.target !== row || e.ctrlKey || e.altKey || e.metaKey) return;
  const fold = row.getAttribute("aria-expanded");
  let to = null;
  switch (e.key) {
  case "ArrowDown": to = row.nextElementSibling; break;
  case "ArrowUp": to = row.previousElementSibling; break;
  case "Home": to = row.parentElement.firstElementChild; break;
  case "End": to = row.parentElement.lastElementChild; break;
  case "ArrowLeft": // close, or to the session in the way
    if (fold === "true") { toggle(row); break; }
    for (to = row.previousElementSibling; to && level(to) >= level(row);) to = to.previousElementSibling;
    break;
  case "ArrowRight": // open, or to the first session that it blocks
    if (fold === "false") { toggle(row); break; }
    to = row.nextElementSibling;
    if (to && level(to) <= level(row)) to = null;
    break;
  case "Enter":
  case " ":
    toggle(row);
    break;
  default: return;
  }
  e.preventDefault();
  if (to) to.focus();
});
