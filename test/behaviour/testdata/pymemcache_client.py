"""Uses every operation of pymemcache against the server at the host and port given, and says "ok" if all did what they should."""

import sys

from pymemcache.client.base import Client, PooledClient
from pymemcache.exceptions import MemcacheClientError, MemcacheIllegalInputError


def expect(got, wanted, what):
    if got != wanted:
        sys.exit(f"{what}: got {got!r:.300}, expected {wanted!r:.300}")


def storage(c):
    expect(c.set("k", b"v", noreply=False), True, "set")
    expect(c.get("k"), b"v", "get")
    expect(c.get("absent", default="none"), "none", "get of a missing key")
    expect(c.add("k", b"w", noreply=False), False, "add of a present key")
    expect(c.add("k2", b"w", noreply=False), True, "add")
    expect(c.replace("k", b"x", noreply=False), True, "replace")
    expect(c.replace("absent", b"x", noreply=False), False, "replace of a missing key")
    expect(c.append("k", b"y", noreply=False), True, "append")
    expect(c.prepend("k", b"w", noreply=False), True, "prepend")
    expect(c.get("k"), b"wxy", "get of what was put together")
    binary = bytes(range(256)) * 100 + b"\r\nEND\r\n\x00"
    expect(c.set("binary", binary, noreply=False), True, "set of binary data")
    expect(c.get("binary"), binary, "get of binary data")
    large = b"m" * 900_000
    expect(c.set("large", large, noreply=False), True, "set of a large value")
    expect(c.get("large"), large, "get of a large value")
    c.set("quiet", b"q", noreply=True)
    expect(c.get("quiet"), b"q", "get of what was set with noreply")


def cas(c):
    c.set("c", b"1", noreply=False)
    value, token = c.gets("c")
    expect(value, b"1", "gets")
    expect(c.cas("c", b"2", token), True, "cas")
    expect(c.cas("c", b"3", token), False, "cas with an old id")
    expect(c.cas("absent", b"3", token), None, "cas of a missing key")
    expect(c.get("c"), b"2", "get after cas")
    expect(c.gets("absent"), (None, None), "gets of a missing key")
    found = c.gets_many(["c", "k", "absent"])
    expect({k: v for k, (v, _) in found.items()}, {"c": b"2", "k": b"wxy"}, "gets_many")


def numbers(c):
    c.set("n", b"10", noreply=False)
    expect(c.incr("n", 5), 15, "incr")
    expect(c.decr("n", 20), 0, "decr below 0")
    expect(c.incr("absent", 1), None, "incr of a missing key")
    try:
        c.incr("k", 1)
        sys.exit("incr of text did not fail")
    except MemcacheClientError as e:
        expect("non-numeric" in str(e), True, "the error of incr on text")


def many(c):
    values = {f"many-{i}": b"value %d" % i for i in range(1000)}
    expect(c.set_many(values, noreply=False), [], "set_many")
    wanted = list(values) + ["absent-1", "absent-2"]
    expect(c.get_many(wanted), values, "get_many of 1,000 keys")
    expect(c.delete_many(list(values)[:500], noreply=False), True, "delete_many")
    expect(len(c.get_many(wanted)), 500, "get_many after delete_many")


def rest(c):
    expect(c.touch("k", 100, noreply=False), True, "touch")
    expect(c.touch("absent", 100, noreply=False), False, "touch of a missing key")
    expect(c.delete("k", noreply=False), True, "delete")
    expect(c.delete("k", noreply=False), False, "delete of a missing key")
    try:
        c.get("x" * 251)
        sys.exit("a key of 251 bytes was not refused")
    except MemcacheIllegalInputError:
        pass
    expect(len(c.version()) > 0, True, "version")
    expect(len(c.stats()) > 10, True, "stats")
    expect(c.flush_all(noreply=False), True, "flush_all")
    expect(c.get("binary"), None, "get after flush_all")
    c.quit()


def main():
    server = (sys.argv[1], int(sys.argv[2]))
    for client in (Client(server, timeout=10, connect_timeout=10), PooledClient(server, timeout=10, max_pool_size=4)):
        for part in (storage, cas, numbers, many, rest):
            part(client)
    print("ok")


main()
