"""Limits of control groups, of either version. The groups are removed at the end."""

import atexit
import mmap
import os

import disk
from parts import Child, Situation, burn, facts, sleep
from processor import OwnPool


def mount_of(controller):
    """Mount point of the hierarchy that has a controller, and whether it is of version 2."""
    both = None
    for line in open("/proc/self/mounts"):
        _, at, kind, options = line.split()[:4]
        if kind == "cgroup" and controller in options.split(","):
            return at, False
        # Version 2 has the freezer in each group, without a controller.
        if kind == "cgroup2" and controller in open(at + "/cgroup.controllers").read().split() + ["freezer"]:
            both = at, True
    assert both, "no control groups with " + controller
    return both


class Group:
    """A group for this process, or one inside another that has the limits."""

    def __init__(self, controller, settings, below=""):
        mount, self.is_new = mount_of(controller)
        self.home = "%s/guestscope-situation-%d" % (mount, os.getpid())
        self.mount, self.inner = mount, self.home + below
        os.makedirs(self.inner)
        if self.is_new and settings:
            self.write(mount, "cgroup.subtree_control", "+" + controller)
        for old, new in settings:
            name, value = new if self.is_new else old
            self.write(self.home, name, value)
        facts["group"] = self.home[len(mount):]
        if settings:
            facts["group_file"] = settings[-1][1 if self.is_new else 0][0]
        self.write(self.inner, "cgroup.procs", "0")
        self.pid = os.getpid()
        atexit.register(self.remove)

    @staticmethod
    def write(folder, name, value):
        with open(os.path.join(folder, name), "w") as file:
            file.write(value)

    def remove(self):
        if os.getpid() != self.pid:
            return
        for folder in (self.inner, self.home):
            if os.path.isdir(folder):
                for pid in open(folder + "/cgroup.procs").read().split():
                    self.write(self.mount, "cgroup.procs", pid)
                os.rmdir(folder)


def quota(below=""):
    return Group("cpu", [
        (("cpu.cfs_period_us", "100000"), ("cpu.max", "40000 100000")),
        (("cpu.cfs_quota_us", "40000"), ("cpu.max", "40000 100000")),
    ], below)


class Quota(Situation):
    """Others of the group have used up its CPU time."""

    below = ""

    def __init__(self):
        self.group = quota(self.below)
        self.others = [Child("tokenizer", burn) for _ in range(2)]

    def before(self, ms):
        for other in self.others:
            other.ask(40 + ms)
        sleep(10)

    def hit(self, ms):
        burn(5)

    def spared(self):
        burn(5)

    def after(self):
        sleep(20)


class QuotaAbove(Quota):
    """The group above has none left."""

    below = "/inner"


class Memory(Situation):
    """Pages of a file do not stay in a group that is too small for them."""

    def __init__(self):
        disk.made("index.bin", 48 << 20)
        limit = str(24 << 20)
        self.group = Group("memory", [(("memory.limit_in_bytes", limit), ("memory.max", limit))])
        self.map = mmap.mmap(os.open("index.bin", os.O_RDONLY), 48 << 20, prot=mmap.PROT_READ)
        self.map.madvise(mmap.MADV_RANDOM)
        self.at = 0
        # All of it: from now on the pages of a hit are always those that were pushed out.
        for at in range(0, 48 << 20, 4096):
            self.map[at]

    def hit(self, ms):
        for _ in range(int(ms * 25)):
            self.map[self.at << 12]
            self.at = (self.at + 1) % (48 << 20 >> 12)


class IoLimit(Situation):
    """The group may read so many bytes a second."""

    def __init__(self):
        disk.made("weights.bin", 96 << 20)
        number = os.stat("weights.bin").st_dev
        which = "%d:%d" % (os.major(number), os.minor(number))
        self.group = Group("blkio" if os.path.isdir("/sys/fs/cgroup/blkio") else "io", [
            (("blkio.throttle.read_bps_device", which + " 20000000"), ("io.max", which + " rbps=20000000")),
        ])
        self.file = os.open("weights.bin", os.O_RDONLY | os.O_DIRECT)
        self.page = mmap.mmap(-1, 1 << 17)
        self.at = 0

    def hit(self, ms):
        # A tenth of a second's bytes come at once.
        for _ in range((2_000_000 + int(ms * 20_000)) >> 17):
            os.preadv(self.file, [self.page], self.at)
            self.at += 1 << 17


class Set(OwnPool):
    """Processes may use one CPU by their group's set, and another one is idle."""

    def __init__(self):
        mount, _ = mount_of("cpuset")
        nodes = open(mount + "/cpuset.mems").read() if os.path.exists(mount + "/cpuset.mems") else "0"
        self.group = Group("cpuset", [
            (("cpuset.mems", nodes.strip()), ("cpuset.mems", "0")),
            (("cpuset.cpus", "0"), ("cpuset.cpus", "0")),
        ])
        self.pool = [Child("augmenter", burn) for _ in range(4)]


class Frozen(Situation):
    """Somebody freezes the group meanwhile, and thaws it."""

    def __init__(self):
        self.group = Group("freezer", [])
        self.pauser = Child("pauser", self.pause)
        self.group.write(self.group.mount, "cgroup.procs", str(self.pauser.pid))

    def pause(self, ms):
        new, old = ("cgroup.freeze", "1", "0"), ("freezer.state", "FROZEN", "THAWED")
        file, freeze, thaw = new if self.group.is_new else old
        self.group.write(self.group.home, file, freeze)
        sleep(ms)
        self.group.write(self.group.home, file, thaw)

    def hit(self, ms):
        self.pauser.ask(ms)
        burn(6)

    def spared(self):
        burn(6)


KINDS = {
    "quota": Quota,
    "quota-above": QuotaAbove,
    "memory-limit": Memory,
    "io-limit": IoLimit,
    "cpu-set": Set,
    "frozen": Frozen,
}
