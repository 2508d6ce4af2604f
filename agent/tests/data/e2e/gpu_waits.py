"""`gpu_waits.py LIBRARY FUNCTION...`: calls functions of a stub of a graphics processor's driver, each spinning and
asleep, in the phase `sync` of a request with the function's name and the way's number.

It appends the stub's own log of each phase to the file that E2E_BOOK names, and what it measured around the calls,
as lines of JSON.
"""

import ctypes
import json
import os
import sys
import time

SPINS, SLEEPS = 0, 1
CALLS = 20
CALL_NS = 4_000_000
BYTES = 4096
FOR_EVER = 2**64 - 1
OF_NOTHING = ("hipDeviceSynchronize", "hipCtxSynchronize")


class Log(ctypes.Structure):
    _fields_ = [("calls", ctypes.c_uint64), ("inside_ns", ctypes.c_uint64), ("cpu_ns", ctypes.c_uint64)]


def caller(stub, name):
    """Calls the function with a handle."""
    function = getattr(stub, name)
    handle = ctypes.c_void_p
    if name in OF_NOTHING:
        stub.stub_next.argtypes = [handle]

        def call(how):
            stub.stub_next(how)
            function()

        return call
    source, target = ctypes.create_string_buffer(BYTES), ctypes.create_string_buffer(BYTES)
    if name.startswith("hipMemcpy"):
        function.argtypes = [handle, handle, ctypes.c_size_t, handle]
        return lambda how: function(target, source, BYTES, how)
    if name.startswith("zeCommandListAppend"):
        function.argtypes = [handle, handle, handle, ctypes.c_size_t, handle, ctypes.c_uint32, handle]
        return lambda how: function(how, target, source, BYTES, None, 0, None)
    if name.startswith("ze"):
        function.argtypes = [handle, ctypes.c_uint64]
        return lambda how: function(how, FOR_EVER)
    function.argtypes = [handle]
    return function


def measured(stub, calls):
    clocks = lambda: (time.monotonic_ns(), time.thread_time_ns())
    before, logged = clocks(), stub.stub_log()
    calls()
    after, now = clocks(), stub.stub_log()
    return {
        "calls": now.calls - logged.calls,
        "inside_ns": now.inside_ns - logged.inside_ns,
        "inside_cpu_ns": now.cpu_ns - logged.cpu_ns,
        "around_ns": after[0] - before[0],
        "around_cpu_ns": after[1] - before[1],
    }


def main(library, *names):
    stub = ctypes.CDLL(library)
    stub.stub_log.restype = Log
    # The marker's library lets the agent look at the process before it goes on.
    import guestscope

    with open(os.environ["E2E_BOOK"], "a") as book:
        for name in names:
            call = caller(stub, name)
            # The pool's thread starts, and pages are touched.
            call(1 << 3 | SLEEPS)
            for way in (SPINS, SLEEPS):

                def calls():
                    for _ in range(CALLS):
                        call(CALL_NS << 3 | way)

                with guestscope.request(name, way + 1) as request:
                    request.next("sync")
                    row = measured(stub, calls)
                json.dump({"name": name, "way": way + 1} | row, book)
                book.write("\n")


main(*sys.argv[1:])
