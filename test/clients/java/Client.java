// A shell around Java's memcached clients: Client.java spymemcached|xmemcached HOST PORT. See ../doc.go for the commands and the form of results.
import java.io.*;
import java.net.InetSocketAddress;
import java.util.*;

public class Client {
  interface Command { Object run(String[] a) throws Exception; }
  static int expiry(String[] a) { return a.length > 3 ? Integer.parseInt(a[3]) : 0; }
  static final Map<String, Long> tokens = new HashMap<>();

  static Map<String, Command> spymemcached(InetSocketAddress at) throws Exception {
    var c = new net.spy.memcached.MemcachedClient(at);
    Map<String, Command> m = new HashMap<>();
    m.put("get", a -> c.get(a[1]));
    m.put("multi", a -> c.getBulk(Arrays.copyOfRange(a, 1, a.length)));
    m.put("set", a -> c.set(a[1], expiry(a), a[2]).get());
    m.put("add", a -> c.add(a[1], expiry(a), a[2]).get());
    m.put("replace", a -> c.replace(a[1], expiry(a), a[2]).get());
    m.put("append", a -> c.append(a[1], a[2]).get());
    m.put("delete", a -> c.delete(a[1]).get());
    m.put("incr", a -> c.incr(a[1], Integer.parseInt(a[2])));
    m.put("touch", a -> c.touch(a[1], Integer.parseInt(a[2])).get());
    m.put("gets", a -> { var v = c.gets(a[1]); if (v == null) return null; tokens.put(a[1], v.getCas()); return v.getValue(); });
    m.put("cas", a -> c.cas(a[1], tokens.get(a[1]), a[2]));
    m.put("flush", a -> c.flush().get());
    m.put("version", a -> c.getVersions().values().iterator().next());
    return m;
  }

  static Map<String, Command> xmemcached(InetSocketAddress at) throws Exception {
    var c = new net.rubyeye.xmemcached.XMemcachedClientBuilder(List.of(at)).build();
    Map<String, Command> m = new HashMap<>();
    m.put("get", a -> c.get(a[1]));
    m.put("multi", a -> c.get(Arrays.asList(a).subList(1, a.length)));
    m.put("set", a -> c.set(a[1], expiry(a), a[2]));
    m.put("add", a -> c.add(a[1], expiry(a), a[2]));
    m.put("replace", a -> c.replace(a[1], expiry(a), a[2]));
    m.put("append", a -> c.append(a[1], a[2]));
    m.put("delete", a -> c.delete(a[1]));
    m.put("incr", a -> c.incr(a[1], Integer.parseInt(a[2])));
    m.put("touch", a -> c.touch(a[1], Integer.parseInt(a[2])));
    m.put("gets", a -> { var v = c.gets(a[1]); if (v == null) return null; tokens.put(a[1], v.getCas()); return v.getValue(); });
    m.put("cas", a -> c.cas(a[1], 0, a[2], tokens.get(a[1])));
    m.put("flush", a -> { c.flushAll(); return true; });
    m.put("version", a -> c.getVersions().values().iterator().next());
    return m;
  }

  static String show(Object v) {
    if (v instanceof Map<?, ?> m) {
      var all = new TreeSet<String>();
      m.forEach((k, x) -> all.add(k + "=" + show(x)));
      return "{" + String.join(",", all) + "}";
    }
    var text = String.valueOf(v);
    return text.length() <= 100 ? text : text.length() + " bytes";
  }

  public static void main(String[] args) throws Exception {
    java.util.logging.LogManager.getLogManager().reset();
    var out = System.out;
    System.setErr(new PrintStream(OutputStream.nullOutputStream()));
    System.setOut(System.err); // libraries log there
    var at = new InetSocketAddress(args[1], Integer.parseInt(args[2]));
    var commands = args[0].equals("xmemcached") ? xmemcached(at) : spymemcached(at);
    out.println("ready");
    var in = new BufferedReader(new InputStreamReader(System.in));
    for (String text; (text = in.readLine()) != null; ) {
      var line = text.split(" ");
      var command = commands.get(line[0]);
      if (command == null) { out.println("unsupported"); continue; }
      if (line.length > 2 && line[2].startsWith("*")) line[2] = "x".repeat(Integer.parseInt(line[2].substring(1)));
      String result;
      try { result = show(command.run(line)); } catch (Throwable e) { result = "error: " + e; }
      result = result.replace('\n', ' ');
      out.println(result.substring(0, Math.min(result.length(), 150)));
    }
    System.exit(0);
  }
}
