"""Work of its own, and others that have the CPUs."""

import ctypes
import gc
import mmap
import os
import socket

from parts import Child, Situation, Worker, burn, compute, libc

_MADV_NOHUGEPAGE = 15
#: Its own work in each request where others have the CPUs, ms.
OWN = 8
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]


def fresh(size):
    """New memory in small pages."""
    address = libc.mmap(None, size, 3, 0x22, -1, 0)
    libc.madvise(address, size, _MADV_NOHUGEPAGE)
    return address


class More(Situation):
    """There is more to compute, in bytecode."""

    def hit(self, ms):
        compute(ms)

    def spared(self):
        compute(3)


class MoreInC(Situation):
    """There is more to compute, in a library."""

    def hit(self, ms):
        burn(ms)

    def spared(self):
        burn(3)


class Collector(Situation):
    """The collector of Python goes through all objects."""

    def __init__(self):
        self.objects = [{"key": number} for number in range(400_000)]
        gc.collect()
        gc.disable()

    def hit(self, ms):
        gc.collect()

    def spared(self):
        compute(2)


class Touch(Situation):
    """Memory is touched for the first time."""

    def hit(self, ms):
        size = int(ms) << 20
        address = fresh(size)
        libc.memset(address, 1, size)
        self.leave = (address, size)

    def after(self):
        if hasattr(self, "leave"):
            libc.munmap(*self.leave)
            del self.leave


class Unmap(Situation):
    """A large area is given back."""

    def before(self, ms):
        self.size = int(8 * ms) << 20
        self.address = fresh(self.size)
        libc.memset(self.address, 1, self.size)

    def hit(self, ms):
        libc.munmap(self.address, self.size)


class Calls(Situation):
    """Thousands of system calls that never wait."""

    def hit(self, ms):
        for _ in range(int(ms * 700)):
            os.stat("/proc/self/status")


class BigCall(Situation):
    """One system call that takes long: random bytes."""

    def hit(self, ms):
        os.urandom(int(ms * 3e5))


class OwnPool(Situation):
    """Its own pool has more busy threads than there are CPUs."""

    def __init__(self):
        self.pool = [Worker("pool-%d" % number, burn) for number in range(3 * os.cpu_count())]

    def hit(self, ms):
        for worker in self.pool:
            worker.ask(ms)
        burn(OWN)

    def spared(self):
        burn(OWN)


class Siblings(OwnPool):
    """The same with processes that it started."""

    def __init__(self):
        self.pool = [Child("indexer", burn) for _ in range(3 * os.cpu_count())]


class Nice(Siblings):
    """It has a low priority, and two processes for each CPU have none: strangers of the machine come first, too."""

    def __init__(self):
        self.pool = [Child("indexer", burn) for _ in range(2 * os.cpu_count())]
        os.nice(15)


class Strangers(Situation):
    """Processes that it did not start: `beside` has them."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect("beside.socket")

    def hit(self, ms):
        self.socket.send(b"%08.3f" % ms)
        burn(OWN)
        self.socket.recv(1)

    def spared(self):
        burn(OWN)


class Pinned(OwnPool):
    """It and its workers may use one CPU, and another one is idle."""

    def __init__(self):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        self.pool = [Child("augmenter", burn) for _ in range(4)]


class Yield(Situation):
    """It spins with sched_yield until a worker process is done."""

    def __init__(self):
        self.memory = mmap.mmap(-1, 4096)
        self.worker = Child("packer", self.pack)

    def pack(self, ms):
        burn(ms)
        self.memory[0] = 1

    def hit(self, ms):
        self.memory[0] = 0
        self.worker.ask(ms)
        while not self.memory[0]:
            os.sched_yield()


KINDS = {
    "more-work": More,
    "more-work-in-c": MoreInC,
    "collector": Collector,
    "touch": Touch,
    "unmap": Unmap,
    "calls": Calls,
    "big-call": BigCall,
    "own-pool": OwnPool,
    "siblings": Siblings,
    "nice": Nice,
    "strangers": Strangers,
    "pinned": Pinned,
    "yield": Yield,
}
