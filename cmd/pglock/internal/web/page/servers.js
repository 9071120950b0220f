"use strict";
// The page of several servers: what matters most of each, the worst first.
let wide = new URLSearchParams(location.search).get("all") || "", tag = "", busy = false, shownAll = false;
const query = () => wide ? "?all=" + wide : "";
const cards = new Map(); // by the names of the servers

// cardOf returns the row of a server, and part, which returns its parts by name.
function cardOf(name) {
  const known = cards.get(name);
  if (known) return known;
  const row = at("server").content.firstElementChild.cloneNode(true);
  const parts = new Map([...row.querySelectorAll("[data-part]")].map(e => [e.dataset.part, e]));
  const card = { row, part: name => parts.get(name) };
  card.part("copy").addEventListener("click", () => copy(card.part("command").textContent, card.part("copy"), card.part("command")));
  cards.set(name, card);
  return card;
}

function showServer(s) {
  const { row, part } = cardOf(s.name), time = Date.parse(s.at);
  const lost = Boolean(s.lost) || !s.at, r = lost ? null : s.root;
  row.className = !s.at && !s.lost ? "unseen" : lost ? "lost" : s.waiting ? "waits" : s.elsewhere ? "elsewhere" : "quiet";
  say(part("link"), printable(s.label));
  part("link").title = printable(s.target);
  part("link").href = "server/" + s.name + "/" + query();
  say(part("version"), versionOf(s) + (s.standby ? " · STANDBY" : ""));
  say(part("lost"), !lost ? "" : !s.lost ? "No answer yet" : (s.at ? "No answer since " + clock(s.at) + " " + zone : "No answer yet") + ", trying again: " + printable(s.lost));
  say(part("sentence"), r || !s.at ? "" : (lost ? "Last seen: " : "") + printable(s.headline));
  part("root").hidden = !r;
  if (r) {
    showRoot(part, s, time);
    part("title").className = r.deadlock ? "tag bad-tag" : "apart";
  }
  part("end").hidden = !r || !r.command;
  const more = [];
  if (r && r.more) more.push(count(r.more, "more root"));
  if (r && s.elsewhere) more.push(elsewhereOf(s));
  say(part("more"), more.join(" · "));
  part("sum-waiting").hidden = lost || !s.waiting;
  say(part("sum-waiting").firstElementChild, String(s.waiting));
  part("sum-longest").hidden = lost || !s.waiting || !s.longest_since;
  say(part("sum-longest").firstElementChild, s.longest_since ? ageOf((time - Date.parse(s.longest_since)) / 1000) : "");
  part("sum-frees").hidden = !r;
  say(part("clock"), lost || s.waiting ? "" : clock(s.at));
  return row;
}

function show(list) {
  shownAll = list.all;
  let next = at("servers").firstElementChild;
  for (const s of list.servers) {
    const row = showServer(s);
    if (row === next) { next = next.nextElementSibling; continue; }
    const focused = row.contains(document.activeElement) && document.activeElement;
    at("servers").insertBefore(row, next);
    if (focused) focused.focus({ preventScroll: true });
  }
  showSums(list.servers);
  at("wide").setAttribute("aria-checked", String(list.all));
  at("alert").hidden = true;
  document.body.toggleAttribute("data-stale", false);
}

const sum = (id, value, what) => {
  const [number, text] = at("sum-" + id).children;
  at("sum-" + id).hidden = !value;
  at("sum-" + id).classList.toggle("loud", id !== "held" && id !== "longest");
  say(number, String(value));
  if (what) say(text, what);
};

// showSums sums up the servers that answer.
function showSums(servers) {
  const answering = servers.filter(s => s.at && !s.lost), total = of => answering.reduce((n, s) => n + of(s), 0);
  const standbys = servers.filter(s => s.standby).length, lost = servers.filter(s => s.lost).length;
  const waiting = total(s => s.waiting), deadlocks = total(s => s.deadlocks.length);
  const longest = Math.max(...answering.map(s => s.waiting && s.longest_since ? Date.parse(s.at) - Date.parse(s.longest_since) : -1));
  const what = count(servers.length, "server") + (standbys ? ", " + (standbys === 1 ? "1 standby" : standbys + " standbys") : "");
  say(at("count"), what);
  sum("waiting", waiting);
  sum("longest", longest < 0 ? "" : ageOf(longest / 1000));
  sum("held", total(s => s.held), total(s => s.held) === 1 ? "lock held" : "locks held");
  sum("deadlocks", deadlocks, deadlocks === 1 ? "deadlock" : "deadlocks");
  sum("lost", lost);
  const seen = servers.map(s => s.at).filter(Boolean).sort().pop();
  say(at("clock"), seen ? clock(seen) + " " + zone : "not seen yet");
  announce(waiting + " waiting on " + what + (lost ? ", " + lost + " lost" : ""));
  const title = (waiting ? "(" + waiting + ") " : "") + (lost ? lost + " lost of " : "") + count(servers.length, "server") + " · pglock";
  if (document.title !== title) document.title = title;
}

async function refresh() {
  if (busy) return;
  busy = true;
  const asked = wide;
  try {
    const r = await ask("api/servers?" + new URLSearchParams({ all: wide, since: tag }));
    if (r.status === 200) {
      const list = await r.json();
      if (asked === wide) {
        tag = list.tag;
        show(list);
      }
    } else if (r.status !== 204) complain(await r.text());
  } catch {
    complain("pglock monitor does not answer");
  } finally {
    busy = false;
  }
  if (asked !== wide) refresh();
}
function complain(text) {
  tag = "";
  document.body.toggleAttribute("data-stale", true);
  at("alert").hidden = false;
  say(at("alert"), text);
}
at("wide").addEventListener("click", () => {
  wide = shownAll ? "0" : "1";
  tag = "";
  history.replaceState(null, "", location.pathname + query());
  refresh();
});
function begin() { refresh(); }
setInterval(() => { if (!document.hidden) refresh(); }, 1000);
begin();
