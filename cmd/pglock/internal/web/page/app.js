"use strict";
const params = new URLSearchParams(location.search);
let key = params.get("key") || "", moment = params.get("at") || "", tag = "", span = null, busy = false;

function link() {
  const q = new URLSearchParams();
  if (moment) q.set("at", moment);
  if (key) q.set("key", key);
  const text = q.toString();
  return location.pathname + (text ? "?" + text : "");
}

// secret shows the monitor that a request comes from its own page: the cookie goes to all ports of the host, but a
// sessionStorage belongs to one. The login brings it, and a new tab asks the other tabs of the page for it.
const tabs = new BroadcastChannel("secret");
let secret = sessionStorage.getItem("secret") || "";
function keep(given) {
  secret = given;
  sessionStorage.setItem("secret", secret);
}
const brought = new URLSearchParams(location.hash.slice(1)).get("secret");
if (brought) {
  keep(brought);
  history.replaceState(null, "", link());
}
tabs.addEventListener("message", e => {
  if (e.data === "" && secret) tabs.postMessage(secret);
  else if (e.data && !secret) {
    keep(e.data);
    refresh();
    timeline().catch(() => {});
  }
});
async function ask(url) {
  const r = await fetch(url, { cache: "no-store", headers: { "Pglock-Secret": secret } });
  if (r.status === 401) { // the monitor was started again, or the tab is new
    secret = "";
    tabs.postMessage("");
  }
  return r;
}

function go() {
  history.replaceState(null, "", link());
  at("all").hidden = !key;
  at("live").setAttribute("aria-pressed", String(!moment));
  tag = "";
  refresh();
}
function lockLink(lock) {
  if (!lock.key) return make("span", printable(lock.label), "lock");
  const a = make("a", printable(lock.label), "lock");
  a.href = "/?key=" + encodeURIComponent(lock.key) + (moment ? "&at=" + encodeURIComponent(moment) : "");
  a.addEventListener("click", e => { e.preventDefault(); key = lock.key; go(); });
  return a;
}

const session = s => s.pid ? s.pid + " " + s.application : "prepared transaction " + s.gid;
// blocked says by which session one is blocked, for which lock.
function blocked(w) {
  const e = make("span");
  if (w.pid || w.gid) {
    e.append(w.soft ? "behind " : "blocked by ", printable(session(w)));
    if (w.more) e.append(" and " + w.more + " more");
    e.append(", ");
  } else e.append("waits for ");
  e.append(lockLink(w.lock));
  return e;
}

// A node is a treeitem, of which one can have the focus with Tab: the arrow keys go on from there.
const tree = new List(at("tree"), n => {
  const row = make("div");
  row.setAttribute("role", "treeitem");
  row.setAttribute("aria-level", n.depth + 1);
  row.tabIndex = -1;
  row.style.setProperty("--depth", Math.min(n.depth, 24));
  const add = (...parts) => { if (row.textContent) row.append(make("span", " · ", "dim")); row.append(...parts); };
  if (n.deadlock) add(make("span", "deadlock", "bad"));
  add(make("span", printable(session(n)), "who"));
  if (n.user) add(make("span", printable(n.user), "dim"));
  if (n.wait) {
    add(blocked(n.wait));
    if (n.mode) row.append(" (" + printable(n.mode) + ")");
    if (n.wait.since) row.append(make("span", " since " + clock(n.wait.since) + ", ", "warn"), age(n.wait.since));
  } else {
    if (n.state) add(make("span", printable(n.state), "dim"));
    if (n.holds) add("holds ", lockLink(n.holds));
    if (n.seen_since) add(age(n.seen_since, "held ≥ "), make("span", ", seen since " + clock(n.seen_since), "dim"));
  }
  if (n.behind) add(make("span", count(n.behind, "session") + " behind", "dim"));
  if (n.code) row.append(make("div", printable(n.code), "dim"));
  for (const a of row.querySelectorAll("a")) a.tabIndex = -1;
  return row;
});

const keys = new List(at("keys"), k => {
  const row = make("tr"), cell = (name, ...parts) => {
    const td = make("td");
    td.setAttribute("role", "cell");
    td.dataset.name = name;
    td.append(...parts);
    row.append(td);
    return td;
  };
  row.setAttribute("role", "row");
  cell("", lockLink(k), make("span", " " + printable(k.database), "dim"));
  const holder = cell("held by", k.holder ? printable(session(k.holder)) + (k.held > 1 ? " and " + (k.held - 1) + " more" : "") : "free");
  if (k.blocked) holder.append(make("br"), blocked(k.blocked));
  cell("seen held since", k.holder && k.holder.seen_since ? clock(k.holder.seen_since) : "");
  cell("waiters", String(k.waiting)).className = k.waiting ? "n warn" : "n";
  cell("longest wait", ...(k.longest_since ? [age(k.longest_since)] : [])).className = "n";
  return row;
});

const journal = new List(at("journal"), e => {
  const li = make("li"), t = make("time", clock(e.at));
  t.dateTime = e.at;
  li.append(t, printable(e.text));
  return li;
});

function show(s) {
  now = Date.parse(s.at);
  tree.apply(s.tree);
  keys.apply(s.keys);
  journal.apply(s.events);
  tick();
  enter();
  say(at("target"), printable(s.target) + (key ? " — " + printable(key) : ""));
  const summary = count(s.locks, "key") + ", " + count(s.holders, "holder") + ", " + count(s.waiters, "waiter") +
    (s.other_waiters ? ", " + s.other_waiters + " waiting for other locks" : "") +
    (s.waits_elsewhere ? ", " + s.waits_elsewhere + " waiting without an advisory lock (--all)" : "");
  say(at("summary"), summary + (s.longest_since ? ", longest wait " + ageOf((now - Date.parse(s.longest_since)) / 1000) : ""));
  announce(summary);
  const alerts = s.deadlocks.map(printable);
  if (s.lost) alerts.unshift("No answer since " + clock(s.at) + ": " + printable(s.lost));
  at("alert").hidden = !alerts.length;
  say(at("alert"), alerts.join(" · "));
  at("no-tree").hidden = tree.order.length > 0;
  at("no-journal").hidden = journal.order.length > 0;
  say(at("more-tree"), s.more_sessions ? "… " + s.more_sessions + " more sessions" : "");
  say(at("more-keys"), s.more_keys ? "… " + s.more_keys + " more keys" : "");
  say(at("when"), moment ? s.at.slice(0, 19).replace("T", " ") + " UTC" : "live, " + clock(s.at));
  at("slider").setAttribute("aria-valuetext", at("when").textContent);
  const title = (s.waiters ? "(" + s.waiters + ") " : "") + "pglock monitor";
  if (document.title !== title) document.title = title;
}
// announce says the sums to a screen reader when they have changed, but not each second.
let announced = 0;
function announce(text) {
  if (Date.now() - announced < 15000 || at("said").textContent === text) return;
  announced = Date.now();
  say(at("said"), text);
}
function complain(text) {
  at("alert").hidden = false;
  say(at("alert"), text);
}

// enter makes the tree one stop of the Tab key: at the item that had the focus last, or the first one.
function enter() {
  const items = at("tree").children;
  if (items.length && !at("tree").querySelector('[tabindex="0"]')) items[0].tabIndex = 0;
}
at("tree").addEventListener("focusin", e => {
  const item = e.target.closest("[role=treeitem]");
  for (const old of at("tree").querySelectorAll(':scope > [tabindex="0"]')) old.tabIndex = -1;
  item.tabIndex = 0;
});
at("tree").addEventListener("keydown", e => {
  const item = e.target.closest("[role=treeitem]"), level = row => Number(row.getAttribute("aria-level"));
  if (!item || e.ctrlKey || e.altKey || e.metaKey) return;
  let to = null;
  switch (e.key) {
  case "ArrowDown": to = item.nextElementSibling; break;
  case "ArrowUp": to = item.previousElementSibling; break;
  case "Home": to = item.parentElement.firstElementChild; break;
  case "End": to = item.parentElement.lastElementChild; break;
  case "ArrowLeft": // to the session in the way
    for (to = item.previousElementSibling; to && level(to) >= level(item);) to = to.previousElementSibling;
    break;
  case "ArrowRight": // to the first session that it blocks
    to = item.nextElementSibling;
    if (to && level(to) <= level(item)) to = null;
    break;
  case "Enter":
    if (e.target === item && item.querySelector("a")) item.querySelector("a").click();
    break;
  default: return;
  }
  e.preventDefault();
  if (to) to.focus();
});

async function refresh() {
  if (busy) return;
  busy = true;
  const asked = moment + "\n" + key;
  try {
    const url = moment ? "/api/at?at=" + encodeURIComponent(moment) + "&key=" + encodeURIComponent(key)
      : "/api/now?key=" + encodeURIComponent(key) + "&since=" + encodeURIComponent(tag);
    const r = await ask(url);
    if (r.status === 200) {
      const s = await r.json();
      if (asked === moment + "\n" + key && (s.since === "" || s.since === tag)) {
        show(s);
        tag = s.tag;
      }
    } else if (r.status !== 204) {
      complain(await r.text());
    }
  } catch {
    complain("pglock monitor does not answer.");
  } finally {
    busy = false;
  }
  if (asked !== moment + "\n" + key) refresh();
}

async function timeline() {
  const r = await ask("/api/timeline?n=200");
  if (r.status !== 200) return;
  span = await r.json();
  const canvas = at("bars"), width = canvas.clientWidth, high = Math.max(1, ...span.bars.map(b => b.waiters));
  canvas.width = width;
  const draw = canvas.getContext("2d"), each = width / span.bars.length;
  const color = name => getComputedStyle(at(name)).color;
  const normal = color("paint-waiters"), bad = color("paint-deadlock"), dim = color("paint-none");
  span.bars.forEach((b, i) => {
    const h = b.waiters ? Math.max(3, 40 * b.waiters / high) : b.seen ? 1 : 0;
    draw.fillStyle = b.deadlocks ? bad : b.waiters ? normal : dim;
    draw.fillRect(i * each, 44 - h, Math.max(1, each - 1), h);
  });
  if (moment && document.activeElement !== at("slider")) {
    const first = Date.parse(span.first), last = Date.parse(span.last);
    at("slider").value = 1000 * (Date.parse(moment) - first) / Math.max(1, last - first);
  }
}
let waiting = 0;
at("slider").addEventListener("input", () => {
  if (!span) return;
  const v = Number(at("slider").value), first = Date.parse(span.first), last = Date.parse(span.last);
  moment = v >= 1000 ? "" : new Date(first + (last - first) * v / 1000).toISOString();
  if (moment) say(at("when"), moment.slice(0, 19).replace("T", " ") + " UTC");
  clearTimeout(waiting);
  waiting = setTimeout(go, 120);
});
at("live").addEventListener("click", () => { moment = ""; at("slider").value = 1000; go(); });
at("all").addEventListener("click", () => { key = ""; go(); });
at("share").addEventListener("click", async () => {
  // A link to what is seen: of the live view, to this moment.
  const keep = moment;
  if (!moment && now) moment = new Date(now).toISOString();
  const url = location.origin + link();
  moment = keep;
  try { await navigator.clipboard.writeText(url); say(at("share"), "Copied"); }
  catch { prompt("The link:", url); }
  setTimeout(() => say(at("share"), "Copy link"), 1500);
});
setInterval(() => { if (!document.hidden && !moment) refresh(); }, 1000);
setInterval(() => { if (!document.hidden) timeline().catch(() => {}); }, 10000);
at("all").hidden = !key;
at("live").setAttribute("aria-pressed", String(!moment));
refresh();
timeline().catch(() => {});
