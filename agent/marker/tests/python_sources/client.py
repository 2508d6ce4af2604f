"""The client of the servers in these tests, and the marks that it expects."""

import http.client
import socket
import sys
import threading
import time

from recorder import recorder

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    PORT = free.getsockname()[1]


def thread(function):
    threading.Thread(target=function, daemon=True).start()


def lines():
    """The lines without hops, numbers and reports."""
    taken = (line.split(" ", 1)[1] for line in recorder.take())
    kept = [line for line in taken if line.split()[0] not in ("enter", "leave", "tell")]
    return [" ".join([line.split()[0], line.split()[1][0]] + line.split()[2:]).partition(" #")[0] for line in kept]


def wait():
    for _ in range(600):
        try:
            return socket.create_connection(("127.0.0.1", PORT), 1).close()
        except OSError:
            time.sleep(0.1)
    sys.exit("no server came up")


def without_collections(seen):
    """The same without phases of the garbage collector, which may come anywhere."""
    left = []
    is_inside = False
    for line in seen:
        if line == "begin p garbage collection":
            is_inside = True
        elif is_inside and line == "end p":
            is_inside = False
        else:
            left.append(line)
    return left


def settle():
    """Waits for the ends of requests whose answers the client has seen."""
    seen = []
    for _ in range(200):
        time.sleep(0.02)
        seen += without_collections(lines())
        if seen and sum(line.startswith("end r") for line in seen) == sum(line.startswith("request") for line in seen):
            return seen
    return seen


def expect(path, name, status, *more, method="GET", headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=20)
    connection.request(method, path, headers=headers or {})
    response = connection.getresponse()
    response.read()
    assert response.status == status, (path, response.status)
    connection.close()
    joins = ["joins r 0af76519"] if headers else []
    wanted = ["request r " + method] + joins + list(more) + [("rename r " + name).strip() + " %d" % status, "end r"]
    seen = settle()
    if seen[: len(wanted)] != wanted:
        sys.exit("%s: expected %s, was %s" % (path, wanted, seen))
