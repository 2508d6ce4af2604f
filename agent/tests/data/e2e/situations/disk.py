"""Files that have to be read or written now, again and again until the time is over."""

import ctypes
import mmap
import os
import time
from random import Random

from parts import Child, Situation, facts, libc, sleep

PAGE = 4096
_FILE_BYTES = 96 << 20
BLOCK = 1 << 14
#: Of a hit; on a fast disk the file would not suffice.
_MOST = _FILE_BYTES // BLOCK // 6
_chance = Random(7)
_TEXT = os.urandom(1 << 16)


def made(name, size):
    """A file whose pages are not in memory."""
    with open(name, "wb") as file:
        for _ in range(size >> 20):
            file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
    evict(name)
    facts["file"] = name
    facts["device"] = device(name)


def evict(name):
    with open(name, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def device(name):
    """The disk below a file, without the number of a partition's device."""
    number = os.stat(name).st_dev
    link = os.readlink("/sys/dev/block/%d:%d" % (os.major(number), os.minor(number)))
    return os.path.basename(link)


def blocks():
    """Offsets of blocks in an order that no reader ahead foresees, each once."""
    numbers = list(range(0, _FILE_BYTES, BLOCK))
    _chance.shuffle(numbers)
    return numbers


class Cold(Situation):
    """Reads from a file that is not in memory."""

    flags = os.O_RDONLY

    def __init__(self):
        made("weights.bin", _FILE_BYTES)
        self.file = os.open("weights.bin", self.flags)
        os.posix_fadvise(self.file, 0, 0, os.POSIX_FADV_RANDOM)
        self.left = blocks()
        self.page = mmap.mmap(-1, BLOCK)

    def read(self):
        os.preadv(self.file, [self.page], self.left.pop())

    def hit(self, ms):
        end = time.monotonic() + ms / 1e3
        for _ in range(_MOST):
            self.read()
            if time.monotonic() > end:
                break


class Direct(Cold):
    """Reads past the memory."""

    flags = os.O_RDONLY | os.O_DIRECT


class Mapped(Cold):
    """Touches mapped pages that are not in memory."""

    def __init__(self):
        super().__init__()
        self.map = mmap.mmap(self.file, _FILE_BYTES, prot=mmap.PROT_READ)
        self.map.madvise(mmap.MADV_RANDOM)

    def read(self):
        self.map[self.left.pop()]


class Fsync(Situation):
    """Writes a log and makes sure that it is on the disk."""

    def __init__(self):
        self.file = os.open("journal.log", os.O_WRONLY | os.O_CREAT)
        facts["file"] = "journal.log"
        facts["device"] = device("journal.log")

    def write(self):
        os.pwrite(self.file, _TEXT, 0)

    def make_sure(self):
        self.write()
        os.fsync(self.file)

    def hit(self, ms):
        end = time.monotonic() + ms / 1e3
        while time.monotonic() < end:
            self.make_sure()

    def spared(self):
        self.write()


class Written(Fsync):
    """Each write goes to the disk by the flag of its file."""

    def __init__(self):
        super().__init__()
        self.synced = os.open("journal.log", os.O_WRONLY | os.O_DSYNC)

    def make_sure(self):
        os.pwrite(self.synced, _TEXT, 0)


class Msync(Fsync):
    """A mapped file is written back."""

    def __init__(self):
        made("state.bin", 1 << 20)
        self.map = mmap.mmap(os.open("state.bin", os.O_RDWR), len(_TEXT))

    def write(self):
        self.map[:] = _TEXT

    def make_sure(self):
        self.write()
        self.map.flush()


_IO_URING_SETUP, _IO_URING_ENTER, _IORING_ENTER_GETEVENTS = 425, 426, 1
_IORING_OP_READ = 22


class Uring(Cold):
    """Reads by io_uring, without a library: rings as the kernel lays them out."""

    flags = os.O_RDONLY | os.O_DIRECT
    depth = 32

    def __init__(self):
        super().__init__()
        self.parameters = (ctypes.c_uint32 * 30)()
        self.ring = libc.syscall(_IO_URING_SETUP, self.depth, self.parameters)
        assert self.ring >= 0, "io_uring is not allowed here"
        # struct io_uring_params: ten words, then the offsets of both rings.
        self.sq, self.cq = self.parameters[10:20], self.parameters[20:30]
        size = max(self.sq[6] + self.parameters[0] * 4, self.cq[5] + self.parameters[1] * 16)
        self.rings = mmap.mmap(self.ring, size)
        self.entries = mmap.mmap(self.ring, self.parameters[0] * 64, offset=0x10000000)
        self.buffer = mmap.mmap(-1, BLOCK * self.depth)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.buffer))

    def word(self, at):
        return ctypes.c_uint32.from_buffer(self.rings, at)

    def hit(self, ms):
        end = time.monotonic() + ms / 1e3
        for _ in range(_MOST // self.depth):
            self.batch(self.depth)
            if time.monotonic() > end:
                break

    def batch(self, count):
        tail = self.word(self.sq[1])
        for number in range(count):
            slot = (tail.value + number) % self.parameters[0]
            entry = (ctypes.c_uint64 * 8).from_buffer(self.entries, slot * 64)
            entry[0] = _IORING_OP_READ | self.file << 32
            entry[1] = self.left.pop()
            entry[2] = self.address + number * BLOCK
            entry[3] = BLOCK
            entry[4] = entry[5] = entry[6] = entry[7] = 0
            self.word(self.sq[6] + slot * 4).value = slot
        tail.value += count
        done = libc.syscall(_IO_URING_ENTER, self.ring, count, count, _IORING_ENTER_GETEVENTS, None, 0)
        assert done == count, os.strerror(ctypes.get_errno())
        self.word(self.cq[0]).value += count


class Busy(Situation):
    """Others read so much that its own few reads stand in queues."""

    def __init__(self):
        made("index.bin", 16 << 20)
        made("dump.bin", 128 << 20)
        self.file = os.open("index.bin", os.O_RDONLY | os.O_DIRECT)
        self.page = mmap.mmap(-1, BLOCK)
        self.at = 0
        self.dumpers = [Child("dumper", self.dump) for _ in range(6)]

    @staticmethod
    def dump(ms):
        file = os.open("dump.bin", os.O_RDONLY | os.O_DIRECT)
        page = mmap.mmap(-1, 8 << 20)
        end, at = time.monotonic() + 2 * ms / 1e3, 0
        while time.monotonic() < end:
            os.preadv(file, [page], at)
            at = (at + (8 << 20)) % (128 << 20)

    def before(self, ms):
        for dumper in self.dumpers:
            dumper.ask(ms)
        sleep(5)

    def hit(self, ms):
        for _ in range(4):
            os.preadv(self.file, [self.page], self.at)
            self.at = (self.at + 37 * BLOCK) % (16 << 20)

    def spared(self):
        self.hit(0)

    def after(self):
        sleep(20)


KINDS = {
    "cold-read": Cold,
    "direct-read": Direct,
    "cold-map": Mapped,
    "fsync": Fsync,
    "synced-write": Written,
    "msync": Msync,
    "io-uring": Uring,
    "busy-disk": Busy,
}
