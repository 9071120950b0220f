"use strict";
// What matters most of a server: who is at the root of the waits.
const versionOf = s => s.version ? "PostgreSQL " + printable(s.version.split(" ")[0]) : "";

// showRoot fills in the parts of a card, which part returns by name. time is the server's clock.
function showRoot(part, s, time) {
  const r = s.root;
  say(part("title"), r.deadlock ? "Deadlock" : "At the root");
  say(part("frees"), String(r.frees));
  const name = who(r), text = name.textContent + r.user + r.database + r.client;
  if (part("who").dataset.text !== text) {
    part("who").dataset.text = text;
    const place = [r.user, r.database, r.client].filter(Boolean).map(printable).join(" · ");
    part("who").replaceChildren(name, make("span", place, "dim"));
  }
  say(part("what"), whatOf(r, time));
  say(part("statement"), r.statement ? (r.state === "active" ? "runs: " : "ran last: ") + printable(r.statement) : "");
  say(part("command"), r.command);
}

// whatOf says what the root does and holds, or how the deadlock goes.
function whatOf(r, time) {
  const parts = [], lasted = r.since ? ageOf((time - Date.parse(r.since)) / 1000) : "";
  if (r.deadlock) parts.push(printable(r.deadlock).replace(/^deadlock: /, ""));
  else if (r.state) parts.push(printable(r.state) + (lasted ? " for " + lasted + ", since " + clock(r.since) : ""));
  const holds = r.lock ? "holds " + printable(r.lock.label) + (r.mode ? " (" + printable(r.mode) + ")" : "") : "";
  if (holds) parts.push(holds + (r.holder ? " in a row" : "") + (!r.state && lasted ? " for " + lasted : ""));
  return parts.join(" · ");
}
