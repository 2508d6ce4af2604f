"""`gpu_calls.py calls FIRST SECOND THIRD`: calls copies of a stub of CUDA's library, loaded one after the other.

`gpu_calls.py maps FILE`: maps a file as code, as a loader does, without calling it.
"""

import _ctypes
import ctypes
import mmap
import os
import sys
import threading
import time

SPINS, BLOCKS = 0, 1
CALL_MS = 4
#: Of a call that is under way when the agent puts its probes there.
LONG_MS = 2500


def load(path):
    stub = ctypes.CDLL(path)
    stub.cuStreamSynchronize.argtypes = [ctypes.c_void_p]
    return stub


def code(stub):
    """The first bytes of a function: a probe changes them."""
    return ctypes.string_at(ctypes.cast(stub.cuStreamSynchronize, ctypes.c_void_p).value, 16)


def load_and_wait(path):
    """The agent looks for new libraries every second."""
    stub = load(path)
    before = code(stub)
    while code(stub) == before:
        time.sleep(0.01)
    return stub


def synchronize(stub, order, ms):
    stub.cuStreamSynchronize(int(ms * 1e6) << 3 | order)


def requests(name, stub, orders):
    import guestscope

    for number, order in enumerate(orders, 1):
        with guestscope.request(name, number) as request:
            request.next("sync")
            synchronize(stub, order, CALL_MS)


def calls(first, second, third):
    stub = load(first)
    under_way = threading.Thread(target=synchronize, args=(stub, BLOCKS, LONG_MS))
    under_way.start()
    # The marker's library lets the agent look at the process before it goes on.
    requests("first", stub, (SPINS, BLOCKS) * 3)
    under_way.join()
    other, more = load_and_wait(second), load_and_wait(third)
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
        code_of_it = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
    # As above: the agent looks now.
    import guestscope

    with guestscope.request("request", 1):
        assert len(code_of_it) > 0


{"calls": calls, "maps": maps}[sys.argv[1]](*sys.argv[2:])
