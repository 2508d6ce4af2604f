"""`gpu_calls.py calls FIRST SECOND THIRD`: calls copies of a stub of CUDA's library, loaded late.

`gpu_calls.py maps FILE`: maps a file as code, as a loader does, without calling it.
"""

import _ctypes
import ctypes
import mmap
import os
import sys
import time

import guestscope

SPINS, BLOCKS = 0, 1
#: Longer than the agent takes to see a new library: it looks every second.
SEEN_S = 2.5
CALL_MS = 4


def load(path):
    stub = ctypes.CDLL(path)
    stub.cuStreamSynchronize.argtypes = [ctypes.c_void_p]
    return stub


def synchronize(stub, order, ms):
    stub.cuStreamSynchronize(int(ms * 1e6) << 3 | order)


def requests(name, stub, orders):
    for number, order in enumerate(orders, 1):
        with guestscope.request(name, number) as request:
            request.next("sync")
            synchronize(stub, order, CALL_MS)


def calls(first, second, third):
    stub = load(first)
    # Under way when the agent puts its probes there.
    synchronize(stub, BLOCKS, 1e3 * SEEN_S)
    requests("first", stub, (SPINS, BLOCKS) * 3)
    other, more = load(second), load(third)
    time.sleep(SEEN_S)
    requests("second", other, (SPINS, BLOCKS) * 3)
    requests("third", more, (SPINS,) * 3)
    _ctypes.dlclose(more._handle)
    requests("again", load(third), (SPINS,) * 3)
    child = os.fork()
    if child == 0:
        requests("forked", other, (SPINS,) * 3)
        os._exit(0)
    os.waitpid(child, 0)


def maps(path):
    with open(path, "rb") as file:
        code = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
    time.sleep(SEEN_S)
    with guestscope.request("request", 1):
        assert len(code) > 0


{"calls": calls, "maps": maps}[sys.argv[1]](*sys.argv[2:])
