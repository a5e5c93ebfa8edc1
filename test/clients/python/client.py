"""A shell around Python's memcached clients: client.py NAME HOST PORT. See ../doc.go for the commands and the form of results."""
import asyncio
import sys

name, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
tokens = {}


def show(v):
    if isinstance(v, (bytes, bytearray)):
        v = bytes(v).decode("utf-8", "replace")
    if isinstance(v, str):
        return v if len(v) <= 100 else f"{len(v)} bytes"
    if isinstance(v, dict):
        return "{" + ",".join(sorted(show(k) + "=" + show(x) for k, x in v.items())) + "}"
    if isinstance(v, (list, tuple)):
        return "[" + ",".join(show(x) for x in v) + "]"
    return repr(v)


def pymemcache():
    from pymemcache.client.base import Client
    c = Client((host, port))
    return {
        "get": c.get, "multi": lambda *k: c.get_many(k), "delete": lambda k: c.delete(k, noreply=False),
        "incr": lambda k, n: c.incr(k, int(n)), "touch": lambda k, e: c.touch(k, int(e), noreply=False),
        "gets": lambda k: tokens.update({k: c.gets(k)}) or tokens[k][0],
        "cas": lambda k, v: c.cas(k, v, tokens[k][1], noreply=False),
        "flush": lambda: c.flush_all(noreply=False), "version": c.version,
        **{m: lambda k, v, e=0, m=m: getattr(c, m)(k, v, int(e), noreply=False) for m in ("set", "add", "replace", "append")},
    }


def python_memcached():
    import memcache
    c = memcache.Client([f"{host}:{port}"], cache_cas=True)
    return {
        "get": c.get, "multi": lambda *k: c.get_multi(k), "delete": c.delete, "incr": lambda k, n: c.incr(k, int(n)),
        "touch": lambda k, e: c.touch(k, int(e)), "gets": c.gets, "cas": c.cas, "flush": c.flush_all,
        "append": c.append, **{m: lambda k, v, e=0, m=m: getattr(c, m)(k, v, int(e)) for m in ("set", "add", "replace")},
    }


def pylibmc(binary=False):
    import pylibmc
    c = pylibmc.Client([f"{host}:{port}"], binary=binary, behaviors={"cas": True})
    return {
        "get": c.get, "multi": lambda *k: c.get_multi(k), "delete": c.delete, "incr": lambda k, n: c.incr(k, int(n)),
        "touch": lambda k, e: c.touch(k, int(e)), "gets": lambda k: tokens.update({k: c.gets(k)}) or tokens[k][0],
        "cas": lambda k, v: c.cas(k, v, tokens[k][1]), "flush": c.flush_all, "append": c.append,
        **{m: lambda k, v, e=0, m=m: getattr(c, m)(k, v, int(e)) for m in ("set", "add", "replace")},
    }


def bmemcached():
    import bmemcached
    c = bmemcached.Client((f"{host}:{port}",))
    return {"get": c.get, "set": lambda k, v, e=0: c.set(k, v, int(e)), "multi": lambda *k: c.get_multi(k), "delete": c.delete}


def meta_memcache():
    from meta_memcache import CacheClient, Key, ServerAddress, SetMode, connection_pool_factory_builder
    c = CacheClient.cache_client_from_servers([ServerAddress(host, port)], connection_pool_factory_builder())
    store = lambda mode: lambda k, v, e=0: c.set(Key(k), v, ttl=int(e), set_mode=mode)
    return {
        "get": lambda k: c.get(Key(k)), "multi": lambda *k: {x.key: v for x, v in c.multi_get([Key(x) for x in k]).items()},
        "delete": lambda k: c.delete(Key(k)), "incr": lambda k, n: c.delta_and_get(Key(k), int(n)),
        "touch": lambda k, e: c.touch(Key(k), ttl=int(e)), "gets": lambda k: tokens.update({k: c.get_cas(Key(k))}) or tokens[k][0],
        "cas": lambda k, v: c.set(Key(k), v, ttl=0, cas_token=tokens[k][1]),
        "set": store(SetMode.SET), "add": store(SetMode.ADD), "replace": store(SetMode.REPLACE), "append": store(SetMode.APPEND),
    }


async def aiomcache():
    import aiomcache
    c, b = aiomcache.Client(host, port), str.encode

    async def multi(*k):
        return dict(zip(k, await c.multi_get(*map(b, k))))

    async def gets(k):
        tokens[k] = await c.gets(b(k))
        return tokens[k][0]
    return {
        "get": lambda k: c.get(b(k)), "multi": multi, "delete": lambda k: c.delete(b(k)), "incr": lambda k, n: c.incr(b(k), int(n)),
        "touch": lambda k, e: c.touch(b(k), int(e)), "gets": gets, "cas": lambda k, v: c.cas(b(k), b(v), tokens[k][1]),
        "flush": c.flush_all, "version": c.version,
        **{m: lambda k, v, e=0, m=m: getattr(c, m)(b(k), b(v), int(e)) for m in ("set", "add", "replace", "append")},
    }


async def emcache():
    import emcache
    c, b = await emcache.create_client([emcache.MemcachedHostAddress(host, port)]), str.encode
    value = lambda item: item and item.value

    async def multi(*k):
        return {key: item.value for key, item in (await c.get_many([b(x) for x in k])).items()}

    async def gets(k):
        tokens[k] = await c.gets(b(k))
        return value(tokens[k])

    async def get(k):
        return value(await c.get(b(k)))
    return {
        "get": get, "multi": multi, "delete": lambda k: c.delete(b(k)), "incr": lambda k, n: c.increment(b(k), int(n)),
        "touch": lambda k, e: c.touch(b(k), int(e)), "gets": gets, "cas": lambda k, v: c.cas(b(k), b(v), tokens[k].cas),
        "flush": lambda: c.flush_all(emcache.MemcachedHostAddress(host, port)), "append": lambda k, v: c.append(b(k), b(v)),
        **{m: lambda k, v, e=0, m=m: getattr(c, m)(b(k), b(v), exptime=int(e)) for m in ("set", "add", "replace")},
    }


async def serve():
    commands = globals()[name]()
    if asyncio.iscoroutine(commands):
        commands = await commands
    loop = asyncio.get_running_loop()
    print("ready", flush=True)
    while line := (await loop.run_in_executor(None, sys.stdin.readline)).split():
        if line[0] not in commands:
            print("unsupported", flush=True)
            continue
        if line[0] in ("set", "add") and line[2].startswith("*"):
            line[2] = "x" * int(line[2][1:])
        try:
            v = commands[line[0]](*line[1:])
            print(show(await v if asyncio.iscoroutine(v) else v), flush=True)
        except Exception as e:
            print(f"error: {type(e).__name__}: {e}".replace("\n", " ")[:150], flush=True)


asyncio.run(serve())
