"use strict";
// The timeline: how many sessions waited, and for how long, with a slider over it.
const svgSpace = "http://www.w3.org/2000/svg";
const shape = (tag, attributes, text) => {
  const e = document.createElementNS(svgSpace, tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  if (text !== undefined) e.textContent = text;
  return e;
};
const plot = { left: 40, right: 10, top: 12, height: 64, axis: 18 };
const minute = 60, hour = 3600, day = 86400;
const steps = [1, 2, 5, 10, 15, 30, minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute,
  hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour, day, 2 * day, 7 * day, 14 * day, 28 * day];
const spansOf = { "15 min": 15 * minute, "1 h": hour, "6 h": 6 * hour, "24 h": day, "All": 0 };
let span = null, drawn = 0, seconds = -1; // drawn is when it was asked for; seconds how long it is, 0 all, -1 not chosen

async function timeline() {
  drawn = Date.now();
  const q = new URLSearchParams({ n: "300" });
  if (seconds > 0) {
    q.set("seconds", seconds);
    if (moment) q.set("to", new Date(Date.parse(moment) + seconds * 500).toISOString());
  }
  const r = await ask("api/timeline?" + q);
  if (r.status !== 200) return;
  span = await r.json();
  if (seconds < 0) {
    seconds = (Date.parse(span.end) - Date.parse(span.begin)) / 1000 > 2 * hour ? hour : 0;
    if (seconds) return timeline();
  }
  draw();
}

const nice = most => {
  for (let unit = 1; ; unit *= 10) for (const n of [1, 2, 3, 4, 5, 6, 8]) if (n * unit >= most) return n * unit;
};
// position returns where a time is, in pixels.
let left = 0, width = 0;
const position = time => left + width * (time - Date.parse(span.first)) / Math.max(1, Date.parse(span.last) - Date.parse(span.first));

function draw() {
  const box = at("chart"), svg = shape("svg", { "aria-hidden": "true", width: box.clientWidth, height: plot.top + plot.height + plot.axis });
  left = plot.left;
  width = box.clientWidth - plot.left - plot.right;
  const most = Math.max(0, ...span.bars.map(b => b.waiters)), scale = nice(Math.max(2, most));
  drawScale(svg, scale, most);
  drawTimes(svg);
  drawGaps(svg);
  drawBars(svg, scale);
  const old = box.querySelector("svg");
  if (old) old.replaceWith(svg); else box.prepend(svg);
  const worst = span.bars.findIndex(b => most && b.waiters === most);
  say(at("most"), worst < 0 ? "nothing waited" : "most " + most + " at " + clock(timeOf(worst)));
  showSpans();
  place();
}
const timeOf = bar => new Date(Date.parse(span.first) + (Date.parse(span.last) - Date.parse(span.first)) * bar / span.bars.length).toISOString();

function drawScale(svg, scale, most) {
  const lines = !most ? [0] : scale % 2 ? [0, scale] : [0, scale / 2, scale];
  for (const n of lines) {
    const y = plot.top + plot.height * (1 - n / scale);
    svg.append(shape("path", { d: "M" + left + " " + (Math.round(y) + .5) + "H" + (left + width), class: "rule" }),
      shape("text", { x: left - 6, y: y + 4, class: "scale" }, n));
  }
}

function drawTimes(svg) {
  const first = Date.parse(span.first), last = Date.parse(span.last), room = Math.max(2, Math.floor(width / 95));
  const step = (steps.find(s => (last - first) / 1000 / s <= room) || steps[steps.length - 1]) * 1000;
  let shown = "";
  for (let t = Math.ceil(first / step) * step; t <= last; t += step) {
    const x = position(t), iso = new Date(t).toISOString(), date = dayOf(iso);
    let label = step >= day * 1000 ? date.slice(5) : step < minute * 1000 ? iso.slice(11, 19) : iso.slice(11, 16);
    if (step < day * 1000 && shown && shown !== date) label = date.slice(5) + " " + label;
    shown = date;
    svg.append(shape("path", { d: "M" + x.toFixed(1) + " " + (plot.top + plot.height) + "v4", class: "tick" }));
    if (x > left + 20 && x < left + width - 54) svg.append(shape("text", { x, y: plot.top + plot.height + 15, class: "time-label" }, label));
  }
  svg.append(shape("text", { x: left + width, y: plot.top + plot.height + 15, class: "zone" }, zone));
}

function drawGaps(svg) {
  for (const g of span.gaps) {
    const from = Math.max(left, position(Date.parse(g.from))), to = Math.min(left + width, position(Date.parse(g.to)));
    if (to > from) svg.append(shape("rect", { x: from, y: plot.top, width: Math.max(1, to - from), height: plot.height, class: "gap" }));
  }
}

function drawBars(svg, scale) {
  const paths = ["", "", ""], each = width / span.bars.length, base = plot.top + plot.height;
  let dead = -1;
  const marks = [];
  span.bars.forEach((b, i) => {
    const from = (left + i * each).toFixed(1), to = (left + (i + 1) * each).toFixed(1);
    if (b.waiters) {
      const y = (base - Math.max(2, plot.height * b.waiters / scale)).toFixed(1);
      paths[Number(heatOf(b.longest_seconds))] += "M" + from + " " + base + "V" + y + "H" + to + "V" + base + "Z";
    }
    if (b.deadlocks && dead < 0) dead = i;
    if (dead >= 0 && (!b.deadlocks || i === span.bars.length - 1)) {
      marks.push([dead, b.deadlocks ? i + 1 : i]);
      dead = -1;
    }
  });
  paths.forEach((d, i) => { if (d) svg.append(shape("path", { d, class: "area heat" + i })); });
  for (const [from, to] of marks) {
    const x = left + from * each;
    svg.append(shape("path", { d: "M" + x.toFixed(1) + " " + base + "V2h" + Math.max(1, (to - from) * each).toFixed(1), class: "dead-line" }),
      shape("path", { d: "M" + (x - 5).toFixed(1) + " 0h10l-5 9z", class: "dead-mark" }));
  }
}

// showSpans offers the lengths that are shorter than all that is recorded.
function showSpans() {
  const all = (Date.parse(span.end) - Date.parse(span.begin)) / 1000, offered = Object.entries(spansOf).filter(([, s]) => s < all);
  const box = at("spans");
  box.hidden = offered.length < 2;
  if (box.children.length !== offered.length) {
    box.replaceChildren(...offered.map(([name, s]) => {
      const button = make("button", name);
      button.type = "button";
      button.dataset.seconds = s;
      button.addEventListener("click", () => { seconds = s; timeline().catch(() => {}); });
      return button;
    }));
  }
  for (const button of box.children) button.setAttribute("aria-pressed", String(Number(button.dataset.seconds) === Math.max(0, seconds)));
}

// place moves the slider to the shown time.
function place() {
  const slider = at("slider"), first = Date.parse(span.first), last = Date.parse(span.last);
  if (document.activeElement !== slider || !moment) slider.value = moment ? 1000 * (Date.parse(moment) - first) / Math.max(1, last - first) : 1000;
  describe(slider);
}
// describe says what is at the slider, for screen readers.
function describe(slider) {
  slider.setAttribute("aria-valuetext", moment ? barText(Date.parse(moment)) : "live");
}
const barAt = time => span.bars[Math.min(span.bars.length - 1, Math.max(0,
  Math.floor(span.bars.length * (time - Date.parse(span.first)) / Math.max(1, Date.parse(span.last) - Date.parse(span.first)))))];
function barText(time) {
  const iso = new Date(time).toISOString(), b = barAt(time);
  let text = (dayOf(iso) === dayOf(span.end) ? "" : dayOf(iso) + " ") + clock(iso) + " " + zone;
  if (span.gaps.some(g => time > Date.parse(g.from) && time < Date.parse(g.to))) return text + ": no snapshots";
  text += ": " + b.waiters + " waiting";
  if (b.longest_seconds) text += ", longest " + ageOf(b.longest_seconds);
  if (b.deadlocks) text += ", " + count(b.deadlocks, "deadlock");
  return text;
}

// sliderTime returns the time of a place on the slider, or 0 for now.
function sliderTime(value) {
  const first = Date.parse(span.first), last = Date.parse(span.last);
  if (value >= 1000 && last >= Date.parse(span.end)) return 0;
  return first + (last - first) * value / 1000;
}
let waitingToGo = 0;
at("slider").addEventListener("input", () => {
  if (!span || !span.bars.length) return;
  const time = sliderTime(Number(at("slider").value));
  moment = time ? new Date(time).toISOString() : "";
  describe(at("slider"));
  showPast();
  clearTimeout(waitingToGo);
  waitingToGo = setTimeout(go, 120);
});
at("chart").addEventListener("pointermove", e => {
  if (!span || !width) return;
  const x = e.clientX - at("chart").getBoundingClientRect().left, tip = at("tip");
  const time = Date.parse(span.first) + (Date.parse(span.last) - Date.parse(span.first)) * Math.min(1, Math.max(0, (x - left) / width));
  tip.hidden = false;
  say(tip, barText(time));
  tip.style.setProperty("left", Math.min(Math.max(0, x - tip.offsetWidth / 2), at("chart").clientWidth - tip.offsetWidth) + "px");
});
at("chart").addEventListener("pointerleave", () => { at("tip").hidden = true; });
new ResizeObserver(() => { if (span) draw(); }).observe(at("chart"));
