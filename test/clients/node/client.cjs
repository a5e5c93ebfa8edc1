// A shell around the memcached clients of npm: client.cjs NAME HOST PORT. See ../doc.go for the commands and the form of results.
const [name, host, port] = process.argv.slice(2);
const server = `${host}:${port}`, tokens = {};
const promised = (f) => new Promise((ok, no) => f((err, v) => (err ? no(err) : ok(v))));

const clients = {
  memcached() {
    const c = new (require('memcached'))(server);
    return {
      get: (k) => promised((f) => c.get(k, f)), multi: (...k) => promised((f) => c.getMulti(k, f)), delete: (k) => promised((f) => c.del(k, f)),
      set: (k, v, e = 0) => promised((f) => c.set(k, v, +e, f)), add: (k, v, e = 0) => promised((f) => c.add(k, v, +e, f)),
      replace: (k, v, e = 0) => promised((f) => c.replace(k, v, +e, f)), append: (k, v) => promised((f) => c.append(k, v, f)),
      incr: (k, n) => promised((f) => c.incr(k, +n, f)), touch: (k, e) => promised((f) => c.touch(k, +e, f)),
      gets: async (k) => (tokens[k] = await promised((f) => c.gets(k, f))) && tokens[k][k],
      cas: (k, v) => promised((f) => c.cas(k, v, tokens[k].cas, 0, f)), flush: () => promised((f) => c.flush(f)),
    };
  },
  'memcache-client'() {
    const { MemcacheClient } = require('memcache-client');
    const c = new MemcacheClient({ server });
    const value = (r) => r && r.value, store = (m) => (k, v, e = 0) => c[m](k, v, { lifetime: +e });
    return {
      get: async (k) => value(await c.get(k)), multi: async (...k) => Object.fromEntries(Object.entries(await c.get(k)).map(([x, r]) => [x, value(r)])),
      set: store('set'), add: store('add'), replace: store('replace'), append: (k, v) => c.append(k, v), delete: (k) => c.delete(k),
      incr: (k, n) => c.incr(k, +n), touch: (k, e) => c.touch(k, e), gets: async (k) => value((tokens[k] = await c.gets(k))),
      cas: (k, v) => c.cas(k, v, { casUniq: tokens[k].casUniq }), version: () => c.version(),
    };
  },
  'memcache-plus'() {
    const c = new (require('memcache-plus'))({ hosts: [server] });
    return {
      get: (k) => c.get(k), multi: (...k) => c.getMulti(k), set: (k, v, e = 0) => c.set(k, v, +e), add: (k, v, e = 0) => c.add(k, v, +e),
      delete: (k) => c.delete(k), incr: (k, n) => c.incr(k, +n), flush: () => c.flush(), replace: (k, v, e = 0) => c.replace(k, v, +e), append: (k, v) => c.append(k, v),
    };
  },
  memjs() {
    const c = require('memjs').Client.create(server, { logger: { log() {} } });
    return { get: async (k) => (await c.get(k)).value, set: (k, v, e = 0) => c.set(k, v, { expires: +e }), delete: (k) => c.delete(k) };
  },
};

function show(v) {
  if (Buffer.isBuffer(v)) v = v.toString();
  if (typeof v === 'string') return v.length <= 100 ? v : `${v.length} bytes`;
  if (Array.isArray(v)) return '[' + v.map(show) + ']';
  if (v && typeof v === 'object') return '{' + Object.keys(v).sort().map((k) => `${k}=${show(v[k])}`) + '}';
  return String(v);
}

(async () => {
  const commands = clients[name]();
  process.on('uncaughtException', (e) => console.error(`uncaught: ${e}`));
  console.log('ready');
  for await (const text of require('readline').createInterface({ input: process.stdin })) {
    const line = text.split(' ');
    if (!commands[line[0]]) { console.log('unsupported'); continue; }
    if (/^(set|add)$/.test(line[0]) && line[2][0] === '*') line[2] = 'x'.repeat(+line[2].slice(1));
    try { console.log(show(await commands[line[0]](...line.slice(1)))); } catch (e) { console.log(`error: ${e && e.message || e}`.replace(/\n/g, ' ').slice(0, 150)); }
  }
  process.exit(0);
})();
