"""Faults inside the program, in every tenth request: FAULT is the kind, FAULT_MS the length."""

import mmap
import os
import socket
import tempfile
import threading
import time

EVERY = 10
KIND, SECONDS = os.environ.get("FAULT", ""), float(os.environ.get("FAULT_MS", "0")) / 1e3


def lock():
    """Another thread holds the lock."""
    mutex, has_it = threading.Lock(), threading.Event()

    def hold():
        with mutex:
            has_it.set()
            time.sleep(SECONDS)

    holder = threading.Thread(target=hold)
    holder.start()
    has_it.wait()
    with mutex:
        pass
    holder.join()


def net():
    """The peer answers slowly."""
    near, far = _connection()

    def answer():
        time.sleep(SECONDS)
        far.sendall(b"x")

    peer = threading.Thread(target=answer)
    peer.start()
    near.recv(1)
    peer.join()
    near.close()
    far.close()


def _connection():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        return near, listener.accept()[0]


def block_io():
    """Reads past the page cache, one after the other."""
    end = time.monotonic() + SECONDS
    with tempfile.NamedTemporaryFile(dir=os.environ.get("FAULT_DISK")) as file, mmap.mmap(-1, 1 << 20) as memory:
        memory.write(b"x" * len(memory))
        direct = os.open(file.name, os.O_RDWR | os.O_DIRECT)
        os.pwritev(direct, [memory], 0)
        while time.monotonic() < end:
            os.preadv(direct, [memory], 0)
        os.close(direct)


def cpu():
    """Computes, and rarely reads the clock, since each reading is a system call."""
    end = time.thread_time() + SECONDS
    while time.thread_time() < end:
        sum(range(20_000))


KINDS = {"sleep": lambda: time.sleep(SECONDS), "lock": lock, "net": net, "block_io": block_io, "cpu": cpu}


def fault(number):
    if KIND and number % EVERY == 0:
        KINDS[KIND]()
