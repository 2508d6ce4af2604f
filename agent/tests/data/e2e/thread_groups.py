"""Threads of several kinds, which work; the file E2E_BOOK gets the CPU time of each kind, in ns.

`grpc_NNN` compute, `net-watch` waits in poll, the main thread computes; with the argument `marked` it does so
in a request, else in none.
"""

import ctypes
import os
import select
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
book = {}
lock = threading.Lock()


def work(kind):
    begun = time.thread_time_ns()
    end = begun + 30_000_000
    while time.thread_time_ns() < end:
        sum(range(1000))
    with lock:
        book[kind] = book.get(kind, 0) + time.thread_time_ns() - begun


def computes(number):
    libc.prctl(15, b"grpc_%03d" % number, 0, 0, 0)
    work("grpc")


def watches(reader):
    libc.prctl(15, b"net-watch", 0, 0, 0)
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    poll.poll()


reader, writer = os.pipe()
watch = threading.Thread(target=watches, args=(reader,))
watch.start()
workers = [threading.Thread(target=computes, args=(number,)) for number in range(3)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
if "marked" in sys.argv:
    import guestscope

    with guestscope.request("classify", 1):
        work("main")
else:
    work("main")
os.write(writer, b"x")
watch.join()
with open(os.environ["E2E_BOOK"], "w") as file:
    for kind, spent_ns in book.items():
        print(kind, spent_ns, file=file)
