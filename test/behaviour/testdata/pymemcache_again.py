"""Counts through pymemcache's RetryingClient, which connects again, until the server at the host and port given has closed five connections."""

import sys

from pymemcache.client.base import Client
from pymemcache.client.retrying import RetryingClient
from pymemcache.exceptions import MemcacheUnexpectedCloseError


class Counted(Client):
    closed = 0

    def close(self):
        if self.sock is not None:
            Counted.closed += 1
        super().close()


def main():
    base = Counted((sys.argv[1], int(sys.argv[2])), timeout=60, connect_timeout=60)
    again = RetryingClient(base, attempts=100, retry_for=[MemcacheUnexpectedCloseError, BrokenPipeError])
    again.set("n", b"0", noreply=False)
    want = 0
    while Counted.closed < 5:
        want += 1
        got = again.incr("n", 1)
        if got != want:
            sys.exit(f"got {got!r}, expected {want}")
    print("ok")


main()
