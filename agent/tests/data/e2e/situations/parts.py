"""What situations are made of: work of known length, threads and processes that obey, facts."""

import ctypes
import hashlib
import os
import struct
import threading
import time

#: Calls give the interpreter's lock away.
libc = ctypes.CDLL(None, use_errno=True)
#: Calls keep it.
keeping = ctypes.PyDLL(None)

#: What the judge needs to know: process and thread IDs, names, paths.
facts = {"pid": os.getpid()}

_MEMORY = bytes(1 << 24)
_PR_SET_NAME = 15


class Situation:
    """One kind of fault. The control goes through all of it but `before` and `hit`."""

    def before(self, ms):
        """Prepares a hit, before its request begins."""

    def hit(self, ms):
        """What the fault is."""
        raise NotImplementedError

    def spared(self):
        """What other requests do instead."""

    def after(self):
        """Between two requests."""

    def finish(self):
        """After the last request."""


def compute(ms):
    """Interprets bytecode for as much CPU time."""
    end = time.thread_time_ns() + int(ms * 1e6)
    while time.thread_time_ns() < end:
        sum(range(200))


def _measured():
    """Bytes that are digested in a millisecond."""
    begun = time.thread_time_ns()
    hashlib.sha256(_MEMORY)
    return len(_MEMORY) * 1e6 / (time.thread_time_ns() - begun)


_bytes_a_ms = []


def burn(ms):
    """Computes for about as much CPU time without the interpreter's lock."""
    if not _bytes_a_ms:
        _bytes_a_ms.append(_measured())
    left = int(ms * _bytes_a_ms[0])
    view = memoryview(_MEMORY)
    while left > 0:
        hashlib.sha256(view[:left])
        left -= len(_MEMORY)


def call_itself(name):
    """Names the calling thread, as the kernel knows it."""
    libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def _obey(orders, act):
    while True:
        order = os.read(orders, 8)
        if len(order) < 8:
            return
        act(struct.unpack("d", order)[0])


class Worker(threading.Thread):
    """A thread that does `act(ms)` for each order."""

    def __init__(self, name, act):
        super().__init__(daemon=True)
        self.title, self.act = name, act
        self.orders, self.asks = os.pipe()
        self.is_there = threading.Event()
        self.start()
        self.is_there.wait()
        facts[name + "_tid"] = self.native_id

    def run(self):
        call_itself(self.title)
        self.is_there.set()
        _obey(self.orders, self.act)

    def ask(self, ms):
        os.write(self.asks, struct.pack("d", ms))


class Child:
    """A process that does `act(ms)` for each order, until its parent ends."""

    def __init__(self, name, act):
        self.orders, self.asks = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.asks)
            call_itself(name)
            _obey(self.orders, act)
            os._exit(0)
        os.close(self.orders)
        facts[name + "_pid"] = self.pid

    def ask(self, ms):
        os.write(self.asks, struct.pack("d", ms))


def sleep(ms):
    time.sleep(ms / 1e3)
