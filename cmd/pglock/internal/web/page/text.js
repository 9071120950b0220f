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
  if (s < 86400) return Math.floor(s / 3600) + "h" + String(Math.floor(s % 3600 / 60)).padStart(2, "0") + "m";
  return Math.floor(s / 86400) + "d" + String(Math.floor(s % 86400 / 3600)).padStart(2, "0") + "h";
};
const clock = text => text.slice(11, 19);
const count = (n, what) => n + " " + what + (n === 1 ? "" : "s");
// zone is the time zone of all times on the page.
const zone = "UTC";
const dayOf = text => text.slice(0, 10);
// ago says in words how long something was before now.
const ago = seconds => {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return count(s, "second") + " ago";
  if (s < 3600) return count(Math.floor(s / 60), "minute") + " ago";
  if (s < 86400) return count(Math.floor(s / 3600), "hour") + " ago";
  return count(Math.floor(s / 86400), "day") + " ago";
};
// session names a session, a prepared transaction, or a process that uses locks in rows.
const session = s => printable(s.holder ? (s.application || s.holder) + (s.host ? " (process " + s.pid + " on " + s.host + ")" : "")
  : s.pid ? (s.pid + " " + s.application).trim() : s.gid ? "prepared transaction " + s.gid : "unknown");
// who is the same as elements, in which the process ID is less prominent than the application.
const who = s => {
  const e = make("span", undefined, "who");
  if (!s.holder && s.pid && s.application) e.append(make("span", s.pid + " ", "pid"), printable(s.application));
  else e.append(session(s));
  return e;
};
// copy copies a text and says so on the button. Without the permission it selects the text of an element, or asks.
async function copy(text, button, element) {
  const was = button.dataset.was || (button.dataset.was = button.textContent);
  try {
    await navigator.clipboard.writeText(text);
    say(button, "Copied");
  } catch {
    if (!element) { prompt("Copy this:", text); return; }
    const range = document.createRange();
    range.selectNodeContents(element);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    say(button, "Selected");
  }
  setTimeout(() => say(button, was), 1500);
}
// announce says the sums to a screen reader when they have changed, but not each second.
let announced = 0;
function announce(text) {
  if (Date.now() - announced < 15000 || at("said").textContent === text) return;
  announced = Date.now();
  say(at("said"), text);
}
