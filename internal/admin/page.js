// ---- The page: it requests /api/stats every second and shows the answers.

let stats = null; // the newest answer of /api/stats
let points = []; // of the last two minutes, oldest first
let lost = null; // when the answers stopped; null while there are answers
const spreadSeconds = 30; // the window of the histogram

const byId = (id) => document.getElementById(id);
const css = (name) => `var(--${name})`;
const served = (p, v) => (p.count > 0 ? v : null); // a second without requests has no times

function serverSeries(value) {
  return () => (stats?.servers ?? []).map((name, i) => ({
    name, color: css(`s${i % 8}`),
    value: (p) => { // the servers of p can be those of an earlier list
      const server = p.servers.find((s) => s.name === name);
      return server ? value(server) : null;
    },
  }));
}

const area = byId("charts");
new Chart(area, {
  title: "Throughput", unit: "requests per second", kind: "area", empty: "no requests yet",
  series: () => [{ name: "requests", color: css("worker"), value: (p) => p.rate }],
});
new Chart(area, {
  title: "Response time", unit: "percentiles, logarithmic scale", kind: "line", log: true, format: duration, empty: "no requests yet",
  series: () => [["p50", "p50"], ["p90", "p90"], ["p99", "p99"], ["p99.9", "p999"]].map(([name, key]) => (
    { name, color: css(key), value: (p) => served(p, p[key]) })),
});
const spread = new Histogram(area, {
  title: "Distribution of response times", unit: `the last ${spreadSeconds} seconds, logarithmic scale`, empty: "no requests yet",
  bounds: () => stats?.bounds ?? [],
  marks: () => ["p50", "p99"].map((name) => ({ name, value: points.at(-1)[name] })).filter((m) => m.value > 0),
});
new Chart(area, {
  title: "Where the time goes", unit: "mean time per request in each stage", kind: "stack", format: duration,
  sum: "response time", empty: "no requests yet",
  series: () => (stats?.stages ?? []).map((name, i) => ({ name, color: css(name), value: (p) => served(p, p.stages[i]) })),
});
new Chart(area, {
  title: "Queue", unit: "requests waiting, mean", kind: "area", least: 1, empty: "no requests are waiting",
  series: () => [{ name: "waiting", color: css("queue"), value: (p) => p.waiting }],
});
new Chart(area, {
  title: "Busy workers", unit: "mean", kind: "area", least: 1, empty: "all workers are idle",
  series: () => [{ name: "busy", color: css("worker"), value: (p) => p.busy }],
  limit: () => (stats ? { value: stats.workers, text: `${stats.workers} workers` } : null),
});
new Chart(area, {
  title: "Requests per server", unit: "requests per second", kind: "stack", sum: "all servers", empty: "no requests yet",
  series: serverSeries((s) => s.rate),
});
new Chart(area, {
  title: "Response time per server", unit: "mean, from the write to the reply", kind: "line", format: duration, empty: "no requests yet",
  series: serverSeries((s) => (s.rate > 0 ? s.mean : null)),
});

function redraw() {
  for (const c of charts) c.draw(points, stats?.length ?? 120);
  const recent = points.slice(-spreadSeconds);
  spread.draw((stats?.bounds ?? []).concat(0).map((_, i) => recent.reduce((sum, p) => sum + p.hist[i], 0)));
}

function clock(seconds) {
  const s = Math.floor(seconds);
  const [d, h, m] = [Math.floor(s / 86400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
  if (d) return `${d} d ${h} h`;
  if (h) return `${h} h ${m} min`;
  return m ? `${m} min ${s % 60} s` : `${s} s`;
}

function tile(title, value, unit, more, bad) {
  return el("div", { class: "tile" }, el("h2", {}, title),
    el("div", { class: bad ? "value bad" : "value" }, value, el("small", {}, unit)), el("div", { class: "more" }, more));
}

function tiles(p) {
  const [median, unit] = p.count ? duration(p.p50).split(" ") : ["–", ""];
  const requested = p.keys > 0;
  byId("tiles").replaceChildren(
    tile("Throughput", count(p.rate), "/s", `${bytes(p.in + p.out)}/s in and out${p.large ? `, ${count(p.large)} large values/s` : ""}`),
    tile("Response time, median", median, unit, p.count ? `p99 ${duration(p.p99)}` : "no requests"),
    tile("Hit ratio", requested ? ((1 - p.misses / p.keys) * 100).toFixed(1) : "–", requested ? "%" : "",
      requested ? `${count(p.keys)} keys/s requested${p.hot ? `, ${percent(p.hot / p.keys)} in memory` : ""}` : "no keys requested"),
    tile("Waiting in the queue", count(p.waiting), p.waiting === 1 ? "request" : "requests",
      `${p.batches} of ${count(stats.queueCapacity)} slots taken`),
    tile("Busy workers", p.busy.toFixed(1), `of ${stats.workers}`, p.batch ? `${digits(p.batch)} requests per round` : "idle"),
    tile("Failed requests", count(p.errors), "/s", p.errors > 0 ? "answered with SERVER_ERROR" : "none", p.errors > 0),
  );
}

function table(id, headings, rows, empty) {
  const head = el("tr", {}, ...headings.map((h) => el("th", h === "share" || h === "stages" ? { class: h } : {}, h)));
  const none = el("tr", {}, el("td", { class: "none", colspan: headings.length }, empty));
  byId(id).replaceChildren(el("thead", {}, head), el("tbody", {}, ...(rows.length ? rows : [none])));
}

// byPool adds a row with the name of a pool above the rows of its servers. The servers are ordered by pool.
function byPool(rows, columns) {
  const begins = (i) => stats.pools && stats.pools[i] !== stats.pools[i - 1];
  return rows.flatMap((r, i) => (begins(i) ? [el("tr", {}, el("th", { colspan: columns }, [stats.pools[i], stats.gutters?.[stats.pools[i]]].filter(Boolean).join(": "))), r] : [r]));
}

// row returns a row of a table of loads. The cells of first follow the name, those of more come last.
function row(name, color, load, total, first, ...more) {
  const time = (v) => el("td", {}, load.rate ? duration(v) : "–");
  return el("tr", {}, el("td", {}, swatch(color), name), ...first, meter(total ? load.rate / total : 0, color),
    el("td", {}, whole(load.rate)), time(load.mean), time(load.p99), ...more);
}

// meter returns a cell with a bar, whose width is the given part of the cell.
function meter(part, color) {
  const bar = el("i", part > 0 ? {} : { hidden: "" });
  bar.style.width = `${100 * part}%`;
  bar.style.background = color;
  return el("td", { class: "share" }, el("div", {}, bar));
}

// memory returns the row with a server's own statistics, m; null: the server didn't answer.
function memory(name, color, m) {
  const first = el("td", {}, swatch(color), name);
  if (!m) return el("tr", {}, first, el("td", { class: "none", colspan: 6 }, "no answer"));
  const requested = m.hits + m.misses;
  return el("tr", {}, first, meter(m.limit ? m.bytes / m.limit : 0, color), el("td", {}, `${bytes(m.bytes)} of ${bytes(m.limit)}`), el("td", {}, count(m.items)),
    el("td", {}, requested ? `${((100 * m.hits) / requested).toFixed(1)} %` : "–"), el("td", {}, count(m.evictions)),
    el("td", {}, `${count(m.connections)} of ${count(m.maxConnections)}`));
}

// stageBar returns the cell that shows in which stages a command spends its time. Pointing at it shows the times.
function stageBar(load) {
  const sum = load.stages.reduce((a, b) => a + b, 0);
  const parts = load.stages.map((v, i) => {
    const part = el("i", {});
    part.style.width = `${sum ? (100 * v) / sum : 0}%`;
    part.style.background = css(stats.stages[i]);
    return part;
  });
  const text = load.stages.map((v, i) => `${stats.stages[i]} ${duration(v)}`).join(", ");
  return el("td", { class: "stages" }, el("div", sum ? { role: "img", title: text, "aria-label": text } : {}, ...parts));
}

// health returns the cell that shows a server's state. Pointing at it shows the reason, and the number of keys that the server missed.
function health(h) {
  if (!h?.state) return el("td", {}, "–");
  if (h.state === "up") return el("td", {}, "up");
  const missed = h.missed ? `; it missed the latest write of ${whole(h.missed)} keys` : "";
  return el("td", { class: "bad", title: h.why + missed }, `${h.state} for ${clock(h.for)}`);
}

function tables(p) {
  const sum = (loads) => loads.reduce((a, l) => a + l.rate, 0);
  const use = (name) => stats.model.parts.find((q) => q.part === "server" && q.server === name)?.utilization ?? 0;
  table("servers", ["server", "state", "share", "requests/s", "mean", "p99", "in use", "waiting", "failed/s"], byPool(p.servers.map((l, i) => row(
    stats.servers[i], css(`s${i % 8}`), l, sum(p.servers), [health(stats.health[i])],
    el("td", {}, percent(use(stats.servers[i]))), el("td", {}, l.waited.toFixed(1)),
    el("td", l.errors ? { class: "bad" } : {}, whole(l.errors)))), 9), "no servers");
  routes();
  follows();
  shadows(p);
  byId("phase").hidden = stats.phase === "settled";
  byId("phase").textContent = `Keys move to other servers: phase ${stats.phase}`;
  const agreement = byId("agreement");
  agreement.hidden = !stats.agreement.text;
  agreement.className = stats.agreement.warning ? "bad" : "";
  agreement.textContent = `Agreement of the replicas: ${stats.agreement.text}`;
  const migrations = byId("migrations");
  migrations.hidden = !stats.migrations.length;
  migrations.className = stats.migrations.some((m) => m.warning) ? "bad" : "";
  migrations.textContent = stats.migrations.map((m) => `${m.inside ? "Reads fill" : "Keys migrate from"} ${m.text}. Next: ${m.next}.`).join(" ");
  table("memory", ["server", "share", "memory", "items", "hit ratio", "evictions", "connections"], byPool(p.servers.map((_, i) => memory(
    stats.servers[i], css(`s${i % 8}`), stats.memcached[i])), 7), "no servers");
  const used = stats.classes.map((name, i) => ({ name, i })).filter(({ i }) => points.some((q) => q.classes[i].rate > 0));
  table("commands", ["command", "share", "requests/s", "mean", "p99", "stages"], used.map(({ name, i }) => row(
    name.replace("_", "-"), css("worker"), p.classes[i], sum(p.classes), [], stageBar(p.classes[i]))), "no requests yet");
}

// routes shows which pool has which keys.
function routes() {
  const columns = ["reads", "strip", "gutter", "shadow", "migrations"].filter((c) => stats.routes.some((r) => r[c]));
  const text = (v) => (v === true ? "yes" : [v ?? []].flat().join("; "));
  byId("routes-card").hidden = !stats.routes.length;
  table("routes", ["prefix", "pool", ...columns], stats.routes.map((r) => el("tr", {},
    el("td", r.default ? {} : { class: "key" }, r.default ? "all other keys" : r.prefix),
    el("td", {}, r.pool), ...columns.map((c) => el("td", {}, text(r[c]))))), "no routes");
  byId("more-routes").hidden = !stats.routesLeft;
  byId("more-routes").textContent = `and ${whole(stats.routesLeft)} more, see /api/routes`;
}

// follows shows what the pools that follow are owed.
function follows() {
  const list = stats.follows ?? [], cell = (v, bad) => el("td", bad ? { class: "bad" } : {}, v);
  byId("follow-card").hidden = !list.length;
  table("follows", ["pool", "follows", "gets", "owed", "oldest", "delivered", "became deletes", "dropped", "may lack writes"], list.map((f) => el("tr", {},
    cell(f.to), cell(f.of), cell(f.what), cell(whole(f.debts)), cell(f.age ? duration(f.age) : "–", f.age > 1e10), cell(whole(f.delivered)),
    cell(whole(f.deletes)), cell(whole(f.dropped), f.dropped), cell(f.doubt ? `since ${f.doubt}` : "no", f.doubt))), "no pools that follow");
}

// shadows shows the requests that shadows get, and how their answers compare with the clients'.
function shadows(p) {
  const list = stats.shadows ?? [], cell = (v, bad) => el("td", v && bad ? { class: "bad" } : {}, whole(v));
  byId("shadow-card").hidden = !list.length;
  if (!list.length) return;
  table("shadows", ["shadow", "of", "copies/s", "dropped/s", ...stats.shadowResults.map((r) => `${r}/s`), "delay"], list.flatMap((s, i) => {
    const l = p.shadows?.[i];
    if (!l) return [];
    return [el("tr", {}, el("td", {}, s.to), el("td", {}, s.of), cell(l.rate), cell(l.dropped, true),
      ...l.answers.map((v, k) => cell(v, ["different", "error"].includes(stats.shadowResults[k]))), el("td", {}, l.delay ? duration(l.delay) : "–"))];
  }), "no shadows");
}

const percent = (v) => `${Math.round(v * 100)} %`;

// hotKeys shows the keys that are requested most.
function hotKeys() {
  const hot = stats.hotKeys, part = (v) => `${(100 * v).toFixed(1)} %`;
  byId("heat").textContent = hot.keys.length
    ? `the hottest key has ${part(hot.top1)} of the requests for keys, the ten hottest ${part(hot.top10)}, the hundred hottest ${part(hot.top100)}${
      hot.served100 ? ` (${part(hot.served100 / hot.top100)} of these answered from memory)` : ""}; from a sample of the last half minute`
    : "from a sample of the last half minute";
  table("keys", ["key", "share", "", "servers"], hot.keys.map((k) => el("tr", {}, el("td", { class: "key" }, k.name), meter(k.share, css("worker")),
    el("td", {}, part(k.share)), el("td", {}, (k.servers ?? []).join(", ")))), "too few requests, or --hot-keys off");
}

// usage shows by which routes, users and prefixes of keys the cache is used.
function usage() {
  const use = stats.usage, part = (v) => `${(100 * v).toFixed(1)} %`;
  const headings = ["", "share", "requests/s", "found", "bytes/s", "of all bytes", "evicted soon/s", "mean"];
  const rows = ["routes", "users", "prefixes"].flatMap((by) => (use[by].length ? [el("tr", {}, el("th", { colspan: headings.length }, by))] : []).concat(use[by].map((p) => el("tr", {},
    el("td", { class: "key" }, p.name), meter(p.share, css("worker")), el("td", {}, whole(p.requests)),
    el("td", {}, p.hits + p.misses ? part(p.hits / (p.hits + p.misses)) : "–"), el("td", {}, bytes(p.bytes)), el("td", {}, part(p.bytesShare)),
    el("td", {}, whole(p.evictedSoon)), el("td", {}, p.mean ? duration(p.mean) : "–")))));
  byId("usage-card").hidden = !rows.length;
  byId("usage-advice").replaceChildren(...use.advice.map((a) => el("li", {}, a)));
  table("usage", headings, rows, "");
}

// limits shows the results of the model: the utilization of each part, and which part is the bottleneck.
function limits() {
  const model = stats.model;
  const called = (p) => (p.part === "server" ? p.server : p.part);
  byId("advice").textContent = model.advice;
  byId("parts").replaceChildren(...model.parts.map((p, i) => {
    const bar = el("i", {});
    bar.style.width = `${100 * p.utilization}%`;
    const tone = p.utilization >= 0.9 ? "bad" : p.utilization >= 0.7 ? "warn" : "good";
    return el("li", i === model.bottleneck ? { class: "first" } : {}, el("span", {}, called(p)), el("div", { class: `meter ${tone}` }, bar),
      el("b", {}, percent(p.utilization)), el("span", { class: "more" }, p.capacity ? `limit ${count(p.capacity)}/s` : ""));
  }));
  const laws = model.laws.map((l) => [`Requests in ${l.law}`, digits(l.measured), digits(l.predicted)]);
  const wait = model.wait.measured ? [["Wait in the queue", duration(model.wait.measured), model.wait.predicted ? duration(model.wait.predicted) : "–"]] : [];
  table("laws", ["", "measured", "predicted"], laws.concat(wait).map((cells) => el("tr", {}, ...cells.map((c) => el("td", {}, c)))), "");
}

function header() {
  const state = byId("state"), notice = byId("notice");
  const [text, tone] = lost ? ["disconnected", "bad"] : stats.ready ? ["serving", "good"] : ["not ready", "warn"];
  state.textContent = text;
  state.className = `state ${tone}`;
  notice.hidden = !lost && stats.ready;
  notice.className = lost ? "notice bad" : "notice";
  notice.textContent = lost
    ? `No answer from mcmw since ${lost.toLocaleTimeString()}. Trying again every second` + (stats ? "; the numbers below are its last ones." : ".")
    : "mcmw serves no clients now: either it has not reached all memcached servers yet, or it is shutting down.";
  byId("main").className = lost ? "stale" : "";
  if (!stats) return;
  byId("version").textContent = stats.version;
  const facts = {
    up: clock(stats.uptime), servers: stats.servers.length, workers: stats.workers,
    connections: count(points.at(-1)?.open ?? 0), "requests so far": count(stats.requests),
  };
  byId("facts").replaceChildren(...Object.entries(facts).map(([k, v]) => el("div", {}, el("dt", {}, k), el("dd", {}, String(v)))));
}

async function refresh() {
  let wait = 1000;
  try {
    const answer = await fetch(`api/stats?after=${points.at(-1)?.seq ?? 0}`, { cache: "no-store", signal: AbortSignal.timeout(3000) });
    if (!answer.ok) throw new Error(answer.statusText);
    const next = await answer.json();
    if (stats && next.started !== stats.started) { // another process, with its own sequence of points
      points = [];
      stats = null;
      lost = null;
      return setTimeout(refresh, 0);
    }
    if (stats && !next.points.length) wait = 150; // the request came just before a new point
    stats = next;
    lost = null;
    points = points.concat(next.points);
    points = points.filter((p) => p.seq > points.at(-1).seq - stats.length);
  } catch {
    lost ??= new Date();
  }
  header();
  if (stats && points.length) {
    tiles(points.at(-1));
    tables(points.at(-1));
    limits();
    hotKeys();
    usage();
  }
  redraw();
  setTimeout(refresh, wait);
}

new ResizeObserver(redraw).observe(area);
refresh();
