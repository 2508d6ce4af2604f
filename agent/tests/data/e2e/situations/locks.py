"""Somebody else has the lock, or the work."""

import concurrent.futures
import fcntl
import multiprocessing
import os
import queue
import threading
import time
from random import Random

from parts import Child, Situation, Worker, burn, call_itself, compute, facts, keeping, sleep


class Mutex(Situation):
    """A thread sleeps with a lock of Python."""

    def __init__(self):
        self.lock = threading.Lock()
        self.reader, self.writer = os.pipe()
        self.holder = Worker("holder", self.hold)

    def hold(self, ms):
        with self.lock:
            os.write(self.writer, b"x")
            sleep(ms)

    def before(self, ms):
        self.holder.ask(ms)
        os.read(self.reader, 1)

    def hit(self, ms):
        with self.lock:
            pass

    def spared(self):
        self.hit(0)


class BusyMutex(Mutex):
    """A thread computes with it."""

    def hold(self, ms):
        with self.lock:
            os.write(self.writer, b"x")
            burn(ms)


class LockTimeout(Mutex):
    """The lock is given up for, and its holder goes on."""

    def before(self, ms):
        super().before(2 * ms)

    def hit(self, ms):
        if self.lock.acquire(timeout=ms / 1e3):
            self.lock.release()

    def spared(self):
        self.hit(1)

    def after(self):
        with self.lock:
            pass


class Gil(Situation):
    """A call of C sleeps with the interpreter's lock."""

    def __init__(self):
        self.caller = Worker("c-caller", lambda ms: keeping.usleep(int(ms * 1e3)))

    def hit(self, ms):
        self.caller.ask(ms)
        compute(8)

    def spared(self):
        compute(8)


class GilSort(Situation):
    """A call of C computes with it: a sort."""

    def __init__(self):
        chance = Random(1)
        self.numbers = [chance.random() for _ in range(200_000)]
        begun = time.thread_time_ns()
        sorted(self.numbers[:50_000])
        self.a_ms = 50_000e6 / (time.thread_time_ns() - begun)
        self.sorter = Worker("sorter", lambda ms: sorted(self.numbers[: int(ms * self.a_ms)]))

    hit = Gil.hit
    spared = Gil.spared

    @property
    def caller(self):
        return self.sorter


class Queue(Situation):
    """The thread that makes the items is late."""

    def __init__(self):
        self.items = queue.Queue()
        self.producer = Worker("producer", self.produce)

    def produce(self, ms):
        sleep(ms)
        self.items.put(1)

    def hit(self, ms):
        self.producer.ask(ms)
        self.items.get()

    def spared(self):
        self.hit(0.1)


class Future(Situation):
    """The answer of a pool of threads is late."""

    def __init__(self):
        self.pool = concurrent.futures.ThreadPoolExecutor(1, initializer=self.begin)

    @staticmethod
    def begin():
        call_itself("embedder")

    def hit(self, ms):
        self.pool.submit(sleep, ms).result()

    def spared(self):
        self.hit(0.1)


class Condition(Situation):
    """Somebody says too late that there is work."""

    def __init__(self):
        self.condition, self.items = threading.Condition(), 0
        self.scheduler = Worker("scheduler", self.schedule)

    def schedule(self, ms):
        sleep(ms)
        with self.condition:
            self.items += 1
            self.condition.notify()

    def hit(self, ms):
        with self.condition:
            self.scheduler.ask(ms)
            self.condition.wait_for(lambda: self.items, timeout=60)
            self.items -= 1

    def spared(self):
        self.hit(0.1)


class Semaphore(Situation):
    """Another process has a semaphore in shared memory."""

    def __init__(self):
        self.lock = multiprocessing.get_context("fork").Semaphore(1)
        self.reader, self.writer = os.pipe()
        self.holder = Child("holder", self.hold)

    def hold(self, ms):
        with self.lock:
            os.write(self.writer, b"x")
            sleep(ms)

    before = Mutex.before
    hit = Mutex.hit
    spared = Mutex.spared


class Flock(Situation):
    """Another process has the lock of a file."""

    lock_it = staticmethod(lambda file: fcntl.flock(file, fcntl.LOCK_EX))
    leave_it = staticmethod(lambda file: fcntl.flock(file, fcntl.LOCK_UN))

    def __init__(self):
        self.reader, self.writer = os.pipe()
        open("cache.lock", "w").close()
        facts["file"] = "cache.lock"
        self.holder = Child("holder", self.hold)
        self.file = open("cache.lock", "r+")

    def hold(self, ms):
        with open("cache.lock", "r+") as file:
            self.lock_it(file)
            os.write(self.writer, b"x")
            sleep(ms)
            self.leave_it(file)

    before = Mutex.before

    def hit(self, ms):
        self.lock_it(self.file)
        self.leave_it(self.file)

    def spared(self):
        self.hit(0)


class RecordLock(Flock):
    """The same by fcntl, for a range."""

    lock_it = staticmethod(lambda file: fcntl.lockf(file, fcntl.LOCK_EX, 100))
    leave_it = staticmethod(lambda file: fcntl.lockf(file, fcntl.LOCK_UN, 100))


class Join(Situation):
    """A thread that is joined works longer."""

    def before(self, ms):
        self.thread = threading.Thread(target=self.work, args=(ms,))
        self.thread.start()

    def work(self, ms):
        call_itself("loader")
        facts["loader_tid"] = threading.get_native_id()
        sleep(ms)

    def hit(self, ms):
        self.thread.join()


class Barrier(Situation):
    """Of three threads that meet, one is late."""

    def __init__(self):
        self.barrier = threading.Barrier(3)
        self.early = Worker("early", self.meet)
        self.late = Worker("late", self.meet)

    def meet(self, ms):
        sleep(ms)
        self.barrier.wait()

    def hit(self, ms):
        self.early.ask(0)
        self.late.ask(ms)
        self.barrier.wait()

    def spared(self):
        self.hit(0)


KINDS = {
    "mutex": Mutex,
    "mutex-busy": BusyMutex,
    "mutex-timeout": LockTimeout,
    "gil-sleep": Gil,
    "gil-sort": GilSort,
    "queue": Queue,
    "future": Future,
    "condition": Condition,
    "semaphore": Semaphore,
    "flock": Flock,
    "record-lock": RecordLock,
    "join": Join,
    "barrier": Barrier,
}
