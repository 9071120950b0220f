"use strict";
// Everything from the server is inserted as text: nothing here makes HTML of it.
const at = id => document.getElementById(id);
const make = (tag, text, cls) => {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (cls) e.className = cls;
  return e;
};
// printable shows control characters, and those that change the direction of writing, as escapes.
const printable = text => String(text).replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cs}\u2028\u2029]/gu,
  c => "\\u" + c.codePointAt(0).toString(16).padStart(4, "0"));
const params = new URLSearchParams(location.search);
let key = params.get("key") || "", moment = params.get("at") || "", tag = "", span = null, busy = false;

const age = seconds => {
  const s = Math.max(0, seconds);
  if (s < 10) return s.toFixed(1) + "s";
  if (s < 60) return Math.floor(s) + "s";
  if (s < 3600) return Math.floor(s / 60) + "m" + String(Math.floor(s % 60)).padStart(2, "0") + "s";
  return Math.floor(s / 3600) + "h" + String(Math.floor(s % 3600 / 60)).padStart(2, "0") + "m";
};
const clock = text => text.slice(11, 19);
const since = (now, then) => (Date.parse(now) - Date.parse(then)) / 1000;
const count = (n, what) => n + " " + what + (n === 1 ? "" : "s");

function link() {
  const q = new URLSearchParams();
  if (moment) q.set("at", moment);
  if (key) q.set("key", key);
  const text = q.toString();
  return location.pathname + (text ? "?" + text : "");
}
function go() {
  history.replaceState(null, "", link());
  at("all").hidden = !key;
  at("live").setAttribute("aria-pressed", String(!moment));
  tag = "";
  refresh();
}
function keyLink(name, label) {
  const a = make("a", printable(label || name), "key");
  a.href = "/?key=" + encodeURIComponent(name) + (moment ? "&at=" + encodeURIComponent(moment) : "");
  a.addEventListener("click", e => { e.preventDefault(); key = name; go(); });
  return a;
}

// update replaces only what has changed, so that the focus and the place of scrolling stay.
function update(list, items, build) {
  items.forEach((item, i) => {
    const text = JSON.stringify(item), old = list.children[i];
    if (old && old.dataset.text === text) return;
    const e = build(item);
    e.dataset.text = text;
    if (old) list.replaceChild(e, old); else list.append(e);
  });
  while (list.children.length > items.length) list.lastChild.remove();
}

function session(n) {
  return n.pid ? n.pid + " " + n.application : "prepared transaction " + n.gid;
}
function grow(nodes, now, depth) {
  const ul = make("ul");
  for (const n of nodes) {
    const li = make("li");
    if (n.deadlock) li.append(make("span", "deadlock ", "bad"));
    li.append(make("span", printable(session(n)), "who"), " ");
    if (n.user) li.append(make("span", printable(n.user) + " ", "dim"));
    if (n.state) li.append(make("span", printable(n.state) + " ", "dim"));
    if (n.waits_for) {
      li.append("waits for ", keyLink(n.waits_for));
      if (n.mode) li.append(" (" + printable(n.mode) + ")");
      if (n.waiting_since) li.append(make("span", " since " + clock(n.waiting_since) + ", " + age(since(now, n.waiting_since)), "warn"));
      if (n.soft) li.append(make("span", " behind another waiter", "dim"));
    } else if (n.seen_since) {
      li.append(make("span", "holds, held ≥ " + age(since(now, n.seen_since)) + ", seen since " + clock(n.seen_since), "dim"));
    }
    if (n.code) li.append(make("div", printable(n.code), "dim"));
    if (n.blocks.length) {
      li.append(make("span", " blocks " + n.blocks.length, "dim"), grow(n.blocks, now, depth + 1));
    }
    ul.append(li);
  }
  return ul;
}
function row(k) {
  const tr = make("tr"), cell = (name, ...parts) => {
    const td = make("td");
    td.dataset.name = name;
    td.append(...parts);
    tr.append(td);
    return td;
  };
  cell("", keyLink(k.key, k.label), make("span", " " + printable(k.database), "dim"));
  const first = k.holders[0];
  cell("held by", first ? printable(session(first)) + (k.held > 1 ? " and " + (k.held - 1) + " more" : "") : "free");
  cell("held since", first && first.seen_since ? "seen since " + clock(first.seen_since) : "");
  cell("waiters", String(k.waiting)).className = k.waiting ? "n warn" : "n";
  cell("longest wait", k.waiting ? age(k.longest_seconds) : "").className = "n";
  return tr;
}
function show(s) {
  at("target").textContent = printable(s.target) + (key ? " — " + printable(key) : "");
  const text = count(s.locks, "key") + ", " + count(s.holders, "holder") + ", " + count(s.waiters, "waiter") +
    (s.waiters ? "" : ", no session waits");
  if (at("summary").textContent !== text) at("summary").textContent = text;
  const alerts = s.deadlocks.map(printable);
  if (s.lost) alerts.unshift("No answer since " + clock(s.at) + ": " + printable(s.lost));
  at("alert").hidden = !alerts.length;
  const alert = alerts.join(" · ");
  if (at("alert").textContent !== alert) at("alert").textContent = alert;
  at("tree").replaceChildren(s.tree.length ? grow(s.tree, s.at, 0) : make("p", "No session waits for an advisory lock.", "dim"));
  update(at("keys"), s.keys, row);
  update(at("journal"), s.events, e => {
    const li = make("li"), t = make("time", clock(e.at));
    t.dateTime = e.at;
    li.append(t, printable(e.text));
    return li;
  });
  if (!s.events.length) update(at("journal"), [{}], () => make("li", "Nothing happened yet.", "dim"));
  at("more").textContent = s.more ? "… " + s.more + " more keys" : "";
  if (!moment) at("when").textContent = "live, " + clock(s.at);
  else at("when").textContent = s.at.slice(0, 19).replace("T", " ") + " UTC";
  at("slider").setAttribute("aria-valuetext", at("when").textContent);
  document.title = (s.waiters ? "(" + s.waiters + ") " : "") + "pglock monitor";
}
function complain(text) {
  at("alert").hidden = false;
  if (at("alert").textContent !== text) at("alert").textContent = text;
}
async function refresh() {
  if (busy) return;
  busy = true;
  const asked = moment + "\n" + key;
  try {
    const url = moment ? "/api/at?at=" + encodeURIComponent(moment) + "&key=" + encodeURIComponent(key)
      : "/api/now?key=" + encodeURIComponent(key);
    const r = await fetch(url, { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
    if (r.status === 200) {
      tag = r.headers.get("ETag") || "";
      const s = await r.json();
      if (asked === moment + "\n" + key) show(s);
    } else if (r.status !== 304) {
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
  const r = await fetch("/api/timeline?n=200", { cache: "no-store" });
  if (r.status !== 200) return;
  span = await r.json();
  const canvas = at("bars"), width = canvas.clientWidth, high = Math.max(1, ...span.bars.map(b => b.waiters));
  canvas.width = width;
  const draw = canvas.getContext("2d"), css = getComputedStyle(document.documentElement), each = width / span.bars.length;
  const paint = document.createElement("span");
  document.body.append(paint);
  const color = name => { paint.style.color = "var(" + name + ")"; return getComputedStyle(paint).color; };
  const normal = color("--link"), bad = color("--bad"), dim = color("--line");
  paint.remove();
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
  if (moment) at("when").textContent = moment.slice(0, 19).replace("T", " ") + " UTC";
  clearTimeout(waiting);
  waiting = setTimeout(go, 120);
});
at("live").addEventListener("click", () => { moment = ""; at("slider").value = 1000; go(); });
at("all").addEventListener("click", () => { key = ""; go(); });
at("share").addEventListener("click", async () => {
  // A link to what is seen: of the live view, to this moment.
  const keep = moment;
  if (!moment && span) moment = span.last;
  const url = location.origin + link();
  moment = keep;
  try { await navigator.clipboard.writeText(url); at("share").textContent = "Copied"; }
  catch { prompt("The link:", url); }
  setTimeout(() => { at("share").textContent = "Copy link"; }, 1500);
});
setInterval(() => { if (!document.hidden && !moment) refresh(); }, 1000);
setInterval(() => { if (!document.hidden) timeline().catch(() => {}); }, 5000);
at("all").hidden = !key;
at("live").setAttribute("aria-pressed", String(!moment));
refresh();
timeline().catch(() => {});
