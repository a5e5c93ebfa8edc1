// ---- Formats of numbers. Times are in nanoseconds.

const digits = (v) => (v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2));
const trim = (s) => (s.includes(".") ? s.replace(/\.?0+$/, "") : s);

function count(v) {
  if (v >= 1e9) return digits(v / 1e9) + "G";
  if (v >= 1e6) return digits(v / 1e6) + "M";
  if (v >= 1e4) return digits(v / 1e3) + "k";
  return v >= 100 || Number.isInteger(v) ? v.toFixed(0) : digits(v);
}

const whole = (v) => Math.round(v).toLocaleString("en");

function duration(ns) {
  const v = ns / 1e3;
  if (v >= 999500) return digits(v / 1e6) + " s";
  if (v >= 999.5) return digits(v / 1e3) + " ms";
  return digits(v) + " µs";
}

function bytes(v) {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (v < 999.5) return (unit === "B" ? v.toFixed(0) : digits(v)) + " " + unit;
    v /= 1e3;
  }
  return digits(v) + " TB";
}

const round = (format) => (v) => format(v).replace(/^[\d.]+/, trim); // an axis label: no trailing zeros

// ---- Elements. Text is only ever set as text, never as markup.

function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [k, v] of Object.entries(attributes)) node.setAttribute(k, v);
  node.append(...children);
  return node;
}

function svg(name, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [k, v] of Object.entries(attributes)) node.setAttribute(k, v);
  if (text !== undefined) node.textContent = text;
  return node;
}

function swatch(color) {
  const node = el("span", { class: "swatch" });
  node.style.background = color;
  return node;
}

// ---- Scales: from values to the heights of grid lines.

function linearTicks(max) {
  const rough = Math.max(max, 1e-9) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const ticks = [];
  for (let i = 0; i === 0 || ticks[i - 1] < max; i++) ticks.push(i * step);
  return ticks;
}

function logTicks(min, max) {
  const ticks = [];
  let decade = 10 ** Math.floor(Math.log10(min));
  const marks = max / min > 300 ? [1] : max / min > 30 ? [1, 3] : [1, 2, 5];
  for (; ; decade *= 10) {
    for (const m of marks) {
      const v = m * decade;
      if (v <= min) ticks.length = 0;
      ticks.push(v);
      if (v >= max && ticks.length > 1) return ticks;
    }
  }
}

// ---- Charts of the last two minutes. All show the same seconds. Pointing at a second in one chart marks it in all of them.

const charts = [];
let pointed = null; // the sequence number of the second pointed at
let pointedChart = null;

// Chart draws series over time. Options:
//   title, unit  texts of the heading
//   kind         "line", "area" (one series), or "stack" (bars on top of each other)
//   series       function -> [{name, color, value(point) -> number, or null for none}]
//   format       number -> text
//   log          true: a logarithmic scale
//   least        the minimum upper end of the scale
//   limit        function -> {value, text}: a dashed line, drawn if it is near the values
//   sum          the name of a stack's sum
//   empty        the text if there is nothing to draw
class Chart {
  constructor(parent, options) {
    Object.assign(this, { height: 190, format: count, least: 0 }, options);
    this.svg = svg("svg", { role: "img", "aria-label": `${this.title}, ${this.unit}`, height: this.height });
    this.tip = el("div", { class: "tip", hidden: "" });
    this.note = el("div", { class: "empty", hidden: "" }, this.empty);
    this.keys = el("ul", { class: "keys" });
    this.plot = el("div", { class: "plot" }, this.svg, this.note, this.tip);
    parent.append(el("article", { class: "card" },
      el("h2", {}, this.title, el("span", {}, this.unit)), this.plot, this.keys));
    this.plot.addEventListener("pointermove", (e) => this.point(e));
    this.plot.addEventListener("pointerdown", (e) => this.point(e));
    this.plot.addEventListener("pointerleave", () => point(null, null));
    charts.push(this);
  }

  point(event) {
    if (!this.points.length) return;
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    const last = this.points.at(-1).seq;
    const seq = Math.round(last - (this.right - x) / this.step);
    point(this, Math.min(Math.max(seq, this.points[0].seq), last));
  }

  // draw draws points, with the newest one at the right edge. The chart is `length` seconds wide.
  draw(points, length) {
    const width = this.plot.clientWidth;
    Object.assign(this, { points, left: 52, right: width - 6, top: 8, bottom: this.height - 22 });
    const series = this.series();
    const stacked = this.kind === "stack";
    this.step = (this.right - this.left) / length;
    const last = points.length ? points.at(-1).seq : 0;
    const x = (p) => this.right - (last - p.seq + (stacked ? 0.5 : 0)) * this.step;

    const values = points.flatMap((p) => {
      const v = series.map((s) => s.value(p)).filter((n) => n !== null);
      return stacked && v.length ? [v.reduce((a, b) => a + b, 0)] : v;
    });
    const limit = this.limit?.();
    let top = Math.max(this.least, ...values);
    if (limit && limit.value <= top * 2.5) top = Math.max(top, limit.value * 1.05);
    const some = values.filter((v) => v > 0);
    const log = this.log && some.length > 0;
    const ticks = log ? logTicks(Math.min(...some), Math.max(...some)) : linearTicks(top || 1);
    const scale = log ? (v) => Math.log(Math.max(v, ticks[0])) : (v) => v;
    const [low, high] = [scale(ticks[0]), scale(ticks.at(-1))];
    const y = (v) => this.bottom - ((scale(v) - low) / (high - low)) * (this.bottom - this.top);

    this.svg.replaceChildren();
    this.frame(some.length || this.least ? ticks : [0], y, length);
    if (stacked) this.stack(series, points, x, y);
    else this.lines(series, points, x, y);
    if (limit && limit.value <= ticks.at(-1)) {
      this.svg.append(
        svg("line", { class: "limit", x1: this.left, x2: this.right, y1: y(limit.value), y2: y(limit.value) }),
        svg("text", { x: this.right, y: y(limit.value) - 4, "text-anchor": "end" }, limit.text));
    }
    this.note.hidden = values.some((v) => v > 0);
    this.mark(series, points, x, y);
  }

  frame(ticks, y, length) {
    for (const t of ticks) {
      this.svg.append(
        svg("line", { class: t === ticks[0] ? "axis" : "grid", x1: this.left, x2: this.right, y1: y(t), y2: y(t) }),
        svg("text", { x: this.left - 7, y: y(t) + 3.5, "text-anchor": "end" }, round(this.format)(t)));
    }
    for (let ago = 0; ago <= length; ago += 30) {
      const at = this.right - ago * this.step;
      const anchor = ago === 0 ? "end" : ago === length ? "start" : "middle";
      this.svg.append(
        svg("line", { class: "axis", x1: at, x2: at, y1: this.bottom, y2: this.bottom + 4 }),
        svg("text", { x: at, y: this.bottom + 17, "text-anchor": anchor }, ago === 0 ? "now" : `−${ago} s`));
    }
  }

  lines(series, points, x, y) {
    for (const s of series) {
      let path = "", wash = "", begun = null, before = null;
      const close = () => { if (begun !== null) wash += `V${this.bottom}H${begun}Z`; begun = null; };
      for (const p of points) {
        const v = s.value(p);
        const joined = before !== null && p.seq === before.seq + 1;
        if (v === null || !joined) close();
        before = v === null ? null : p;
        if (v === null) continue;
        const at = `${x(p).toFixed(1)} ${y(v).toFixed(1)}`;
        path += begun === null ? `M${at}h0` : "L" + at; // h0: a lone point shows as a dot
        wash += begun === null ? `M${x(p).toFixed(1)} ${this.bottom}L${at}` : "L" + at;
        begun ??= x(p).toFixed(1);
      }
      close();
      if (this.kind === "area") this.svg.append(svg("path", { class: "wash", d: wash, fill: s.color }));
      this.svg.append(svg("path", { class: "line", d: path, stroke: s.color }));
    }
  }

  stack(series, points, x, y) {
    const below = points.map(() => 0);
    const bar = Math.max(this.step - (this.step > 4 ? 1 : 0), 0.5);
    for (const s of series) {
      let path = "";
      points.forEach((p, i) => {
        const v = s.value(p);
        if (v === null || v <= 0) return;
        const from = y(below[i]);
        below[i] += v;
        path += `M${(x(p) - bar / 2).toFixed(1)} ${from.toFixed(1)}h${bar.toFixed(1)}V${y(below[i]).toFixed(1)}h${(-bar).toFixed(1)}Z`;
      });
      this.svg.append(svg("path", { d: path, fill: s.color }));
    }
  }

  // mark shows the values of the second that is pointed at, or, in the legend, those of the newest second.
  mark(series, points, x, y) {
    const p = points.find((q) => q.seq === pointed) ?? points.at(-1);
    const text = (s) => { const v = p ? s.value(p) : null; return v === null ? "–" : this.format(v); };
    const total = p && this.sum ? series.reduce((a, s) => a + (s.value(p) ?? 0), 0) : null;
    this.keys.replaceChildren(...series.map((s) => el("li", {}, swatch(s.color), s.name, el("b", {}, text(s)))));
    if (total) this.keys.append(el("li", { class: "sum" }, this.sum, el("b", {}, this.format(total))));
    const here = pointed !== null && p && p.seq === pointed;
    this.tip.hidden = !(here && pointedChart === this);
    if (!here) return;
    this.svg.append(svg("line", { class: "cross", x1: x(p), x2: x(p), y1: this.top, y2: this.bottom }));
    if (this.kind !== "stack") {
      for (const s of series) {
        if (s.value(p) !== null) this.svg.append(svg("circle", { class: "dot", cx: x(p), cy: y(s.value(p)), r: 3.5, fill: s.color }));
      }
    }
    if (this.tip.hidden) return;
    const ordered = this.kind === "stack" || this.log ? series.toReversed() : series;
    const rows = ordered.map((s) => el("div", {}, swatch(s.color), s.name, el("b", {}, text(s))));
    if (total) rows.push(el("div", { class: "sum" }, this.sum, el("b", {}, this.format(total))));
    this.tip.replaceChildren(el("time", {}, new Date(p.time).toLocaleTimeString()), ...rows);
    const leftSide = x(p) > (this.left + this.right) / 2;
    this.tip.style.left = leftSide ? "" : `${x(p) + 12}px`;
    this.tip.style.right = leftSide ? `${this.plot.clientWidth - x(p) + 12}px` : "";
  }
}

// ---- A histogram over a logarithmic scale.

// Histogram draws how many response times lie between bounds. Options: title, unit and empty, as for Chart, and
//   bounds  function -> upper bounds, ascending, ns; the last count is that of times beyond the last bound
//   marks   function -> [{name, value}]: values in the legend
class Histogram {
  constructor(parent, options) {
    Object.assign(this, { height: 190, shown: null }, options);
    this.svg = svg("svg", { role: "img", "aria-label": `${this.title}, ${this.unit}`, height: this.height });
    this.tip = el("div", { class: "tip", hidden: "" });
    this.note = el("div", { class: "empty", hidden: "" }, this.empty);
    this.keys = el("ul", { class: "keys" });
    this.plot = el("div", { class: "plot" }, this.svg, this.note, this.tip);
    parent.append(el("article", { class: "card" }, el("h2", {}, this.title, el("span", {}, this.unit)), this.plot, this.keys));
    for (const event of ["pointermove", "pointerdown"]) this.plot.addEventListener(event, (e) => this.point(e));
    this.plot.addEventListener("pointerleave", () => { this.shown = null; redraw(); });
  }

  point(event) {
    if (!this.step) return;
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    this.shown = Math.min(Math.max(Math.floor((x - this.left) / this.step), 0), this.counts.length - 1);
    redraw();
  }

  // draw draws counts. counts[i] is the number of times below bounds[i] and not below the previous bound.
  draw(counts) {
    const bounds = this.bounds();
    const total = counts.reduce((a, b) => a + b, 0);
    this.svg.replaceChildren();
    this.note.hidden = total > 0;
    this.step = 0;
    // The ranges with counts and one more on each side, or, without counts, two decades.
    const from = total ? Math.max(counts.findIndex((n) => n > 0) - 1, 0) : 0;
    const to = total ? Math.min(counts.findLastIndex((n) => n > 0) + 1, counts.length - 1) : Math.min(20, counts.length - 1);
    this.counts = counts.slice(from, to + 1);
    if (this.counts.length < 2) return;
    const width = this.plot.clientWidth;
    Object.assign(this, { left: 52, right: width - 6, top: 8, bottom: this.height - 22 });
    this.step = (this.right - this.left) / this.counts.length;
    const ticks = linearTicks(total ? Math.max(...this.counts) / total : 1);
    const y = (share) => this.bottom - (share / ticks.at(-1)) * (this.bottom - this.top);
    const percent = (v) => trim((v * 100).toFixed(v < 0.01 ? 2 : 1)) + " %";
    const x = (i) => this.left + i * this.step; // where range i begins
    for (const t of ticks) {
      this.svg.append(
        svg("line", { class: t === 0 ? "axis" : "grid", x1: this.left, x2: this.right, y1: y(t), y2: y(t) }),
        svg("text", { x: this.left - 7, y: y(t) + 3.5, "text-anchor": "end" }, percent(t)));
    }
    let free = -Infinity; // where the last label ends
    for (let i = 1; i < this.counts.length; i++) {
      const bound = bounds[from + i - 1], leading = bound / 10 ** Math.floor(Math.log10(bound) + 1e-9);
      if (![1, 2, 5].some((d) => Math.abs(leading - d) < 1e-6)) continue;
      const at = x(i);
      this.svg.append(svg("line", { class: "axis", x1: at, x2: at, y1: this.bottom, y2: this.bottom + 4 }));
      if (at - free < 52 || at > this.right - 20) continue;
      this.svg.append(svg("text", { x: at, y: this.bottom + 17, "text-anchor": "middle" }, round(duration)(bound)));
      free = at;
    }
    this.counts.forEach((n, i) => {
      if (!n) return;
      const height = Math.max(this.bottom - y(n / total), 1);
      this.svg.append(svg("rect", {
        x: x(i) + 0.5, y: this.bottom - height, width: Math.max(this.step - 1, 0.5), height, fill: css("worker"),
        opacity: this.shown === null || this.shown === i ? 1 : 0.55,
      }));
    });
    const range = (i) => `${from + i > 0 ? duration(bounds[from + i - 1]) : "0"} – ${from + i < bounds.length ? duration(bounds[from + i]) : "more"}`;
    this.keys.replaceChildren(el("li", {}, `${count(total)} requests`), ...(total ? this.marks() : []).map((m) => el("li", {}, m.name, el("b", {}, duration(m.value)))));
    this.tip.hidden = this.shown === null || !total || this.shown >= this.counts.length;
    if (this.tip.hidden) return;
    const i = this.shown;
    const below = counts.slice(0, from + i + 1).reduce((a, b) => a + b, 0);
    this.tip.replaceChildren(el("time", {}, range(i)), el("div", {}, "requests", el("b", {}, whole(this.counts[i]))),
      el("div", {}, "share", el("b", {}, percent(this.counts[i] / total))), el("div", {}, "not slower", el("b", {}, percent(below / total))));
    const leftSide = x(i) > (this.left + this.right) / 2;
    this.tip.style.left = leftSide ? "" : `${x(i + 1) + 8}px`;
    this.tip.style.right = leftSide ? `${width - x(i) + 8}px` : "";
  }
}

function point(chart, seq) {
  pointedChart = chart;
  pointed = seq;
  redraw();
}
