"use strict";
const params = new URLSearchParams(location.search);
let key = params.get("key") || "", moment = params.get("at") || "", tag = "", busy = false;

// link returns the address of what is shown, with changes.
function link(changes = {}) {
  const q = new URLSearchParams();
  const all = { at: moment, key, ...changes };
  for (const name of ["at", "key"]) if (all[name]) q.set(name, all[name]);
  const text = q.toString();
  return location.pathname + (text ? "?" + text : "");
}

// choose shows another key or moment.
function choose(changes) {
  if (changes.key !== undefined) key = changes.key;
  if (changes.moment !== undefined) moment = changes.moment;
  go();
}
function go() {
  history.replaceState(null, "", link());
  showPast();
  tag = "";
  refresh();
  if (moment && span && (Date.parse(moment) < Date.parse(span.first) || Date.parse(moment) > Date.parse(span.last))) timeline().catch(() => {});
  else if (span) place();
}

// showPast says at the top whether the page shows the past, and only one key.
function showPast() {
  document.body.toggleAttribute("data-past", Boolean(moment));
  at("past").hidden = !moment;
  at("only").hidden = !key;
  say(at("only-key"), printable(key));
  if (!moment) return;
  const last = span ? Date.parse(span.end) : now;
  say(at("past-time"), (last && dayOf(moment) === dayOf(new Date(last).toISOString()) ? "" : dayOf(moment) + " ") + clock(moment) + " " + zone);
  say(at("past-ago"), last ? ", " + ago((last - Date.parse(moment)) / 1000) : "");
}

const sum = (id, value, what, bad) => {
  const e = at("sum-" + id), [number, text] = e.children;
  e.hidden = value === "";
  say(number, String(value));
  if (what) say(text, what);
  e.classList.toggle("loud", Boolean(bad));
};

function show(s) {
  if (s.at) now = Date.parse(s.at);
  tree.apply(s.tree);
  keys.apply(s.keys);
  rows.apply(s.rows);
  journal.apply(s.events);
  tick();
  enter();
  showKeys();
  showJournal();
  showSums(s);
  showHeadline(s);
  showStale(s.at, s.lost);
  at("rows-section").hidden = !rows.order.length;
  at("tree-section").hidden = !tree.order.length;
  say(at("more-tree"), s.more_sessions ? "… " + s.more_sessions + " more sessions" : "");
  say(at("more-keys"), s.more_keys ? "… " + s.more_keys + " more keys" : "");
  say(at("more-rows"), s.more_rows ? "… " + s.more_rows + " more locks in rows" : "");
  say(at("notes"), s.notes.map(printable).join(" · "));
}

function showSums(s) {
  const name = printable(s.target), version = versionOf(s);
  say(at("target"), name);
  say(at("version"), version + (s.standby ? " · STANDBY" : ""));
  at("version").title = printable(s.version);
  const longest = s.longest_since ? ageOf((now - Date.parse(s.longest_since)) / 1000) : "";
  sum("waiting", s.waiting, "waiting", s.waiting);
  sum("longest", s.waiting && longest ? longest : "");
  sum("held", s.held || (s.waiting ? "" : 0), s.held === 1 ? "lock held" : "locks held");
  sum("deadlocks", s.deadlocks.length || "", s.deadlocks.length === 1 ? "deadlock" : "deadlocks", true);
  announce(s.waiting + " waiting, " + s.held + " held" + (s.deadlocks.length ? ", " + count(s.deadlocks.length, "deadlock") : ""));
  const title = (s.lost ? "(no answer) " : s.waiting ? "(" + s.waiting + ") " : "") + name +
    (version ? " · " + version : "") + " · pglock";
  if (document.title !== title) document.title = title;
}

// showHeadline shows what to do about the waits, or that nothing waits.
const versionOf = s => s.version ? "PostgreSQL " + printable(s.version.split(" ")[0]) : "";
function showHeadline(s) {
  const acts = s.waiting > 0 && !s.lost;
  at("root").hidden = !acts;
  at("calm").hidden = acts || !s.at;
  at("calm").classList.toggle("waits", Boolean(s.lost));
  say(at("quiet"), printable(s.headline));
  if (!acts) return;
  const [first, ...others] = printable(s.headline).split("; or ");
  say(at("root-what"), first);
  say(at("root-or"), others.length ? "or " + others.join("; or ") : "");
  say(at("root-statement"), printable(s.statement));
  for (const [i, id] of ["root-first", "root-other"].entries()) {
    at(id).hidden = !s.commands[i] || Boolean(moment);
    say(at("command-" + i), printable(s.commands[i] || ""));
  }
}

// showStale greys the page out while there are no snapshots, and says what is seen.
let lastSeen = "";
function showStale(seenAt, why) {
  const stale = Boolean(why) && !moment;
  lastSeen = seenAt || lastSeen;
  document.body.toggleAttribute("data-stale", stale);
  for (const e of document.querySelectorAll(".stale")) say(e, stale ? lastSeen ? "last seen " + clock(lastSeen) : "never seen" : "");
  at("alert").hidden = !stale;
  if (stale) say(at("alert"), (lastSeen ? "Unknown since " + clock(lastSeen) + " " + zone + ": no answer" : "No answer yet") + ", trying again: " + printable(why));
  say(at("clock"), !lastSeen ? "not seen yet" : stale ? "last seen " + clock(lastSeen) : clock(seenAt) + " " + zone);
}

async function refresh() {
  if (busy) return;
  busy = true;
  const asked = link();
  try {
    const q = new URLSearchParams({ key });
    if (moment) q.set("at", moment); else q.set("since", tag);
    const r = await ask((moment ? "api/at?" : "api/now?") + q);
    if (r.status === 200) {
      const s = await r.json();
      if (asked === link()) {
        show(s);
        tag = s.tag;
      }
    } else if (r.status !== 204) {
      complain(await r.text());
    }
  } catch {
    complain("pglock serve does not answer");
  } finally {
    busy = false;
  }
  if (asked !== link()) refresh();
}
function complain(text) {
  if (!moment) { showStale("", text); tag = ""; return; }
  at("alert").hidden = false;
  say(at("alert"), text);
}

at("live").addEventListener("click", () => { at("slider").value = 1000; choose({ moment: "" }); timeline().catch(() => {}); at("slider").focus(); });
at("all").addEventListener("click", () => choose({ key: "" }));
for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", () => copy(at(button.dataset.copy).textContent, button, at(button.dataset.copy)));
}
// A link to what is seen: of the live view, to this moment.
at("share").addEventListener("click", () =>
  copy(location.origin + link(moment || !now ? {} : { at: new Date(now).toISOString() }), at("share")));
for (const button of document.querySelectorAll("[data-step]")) {
  button.addEventListener("click", () => {
    const time = Date.parse(moment) + 1000 * Number(button.dataset.step);
    if (span) moment = new Date(Math.min(Math.max(time, Date.parse(span.begin)), Date.parse(span.end))).toISOString();
    go();
  });
}
// begin asks for all that is shown, with the secret or to learn that there is none.
function begin() {
  refresh();
  timeline().then(showPast).catch(() => {});
}
setInterval(() => {
  if (document.hidden) return;
  if (!moment) refresh();
  if (Date.now() - drawn >= Math.min(10000, span ? (Date.parse(span.last) - Date.parse(span.first)) / 300 : 0)) timeline().then(showPast).catch(() => {});
}, 1000);
showPast();
begin();
