"""Requests that wait for a GPU: a stub of CUDA's library waits as it was seen to do on a real one."""

import ctypes
import os
import threading

from parts import Situation, compute, facts, sleep

#: How the stub waits: the low bits of a handle, whose others are nanoseconds.
SPINS, BLOCKS = 0, 1
_BYTES = 1 << 20


def driver():
    """The stub, loaded as a program loads CUDA: from the first call on."""
    stub = ctypes.CDLL(os.environ["E2E_CUDA"])
    stub.cuStreamSynchronize.argtypes = [ctypes.c_void_p]
    for copy in (stub.cuMemcpyHtoDAsync_v2, stub.cuMemcpyDtoHAsync_v2):
        copy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    return stub


def handle(order, ms):
    return int(ms * 1e6) << 3 | order


class Waits(Situation):
    """The kernels of a request take longer: its thread spins meanwhile."""

    order = SPINS
    #: Of every request, ms.
    usual = 1

    def __init__(self):
        self.driver = driver()
        facts["driver"] = "libcuda"

    def hit(self, ms):
        self.driver.cuStreamSynchronize(handle(self.order, ms))

    def spared(self):
        self.hit(self.usual)


class Sleeps(Waits):
    """The same with cudaDeviceScheduleBlockingSync: a thread of the driver wakes it."""

    order = BLOCKS


class Copies(Waits):
    """Memory that is not pinned is copied to the device, and the thread with it."""

    def __init__(self):
        super().__init__()
        self.host, self.device = (ctypes.create_string_buffer(_BYTES) for _ in range(2))

    def hit(self, ms):
        for _ in range(int(ms)):
            self.driver.cuMemcpyHtoDAsync_v2(self.device, self.host, _BYTES, handle(SPINS, 1))


KINDS = {"gpu-spins": Waits, "gpu-blocks": Sleeps, "gpu-copies": Copies}


def _requests(work, data):
    import guestscope

    for number in range(1, 121):
        with guestscope.request("serve", number) as request:
            request.next("data")
            data()
            request.next("work")
            work()


def launches(ms, is_faulty):
    """The thread launches for most of each request, and the device is done at once; the control uses none."""
    stub = driver()

    def work():
        compute(ms)
        if is_faulty:
            stub.cuStreamSynchronize(handle(SPINS, 0.05))

    _requests(work, lambda: None)


def late_input(ms, is_faulty):
    """A loader's thread is late for each request; the control has the input already."""
    stub = driver()

    def work():
        compute(2)
        stub.cuStreamSynchronize(handle(SPINS, 0.05))

    def data():
        if is_faulty:
            reader, writer = os.pipe()
            loader = threading.Thread(target=lambda: (sleep(ms), os.write(writer, b"x")))
            loader.start()
            os.read(reader, 1)
            loader.join()
            os.close(reader)
            os.close(writer)

    _requests(work, data)


def busy(ms, _):
    """Every request waits for the device; what is wrong is on the card."""
    stub = driver()
    _requests(lambda: stub.cuStreamSynchronize(handle(SPINS, ms)), lambda: None)


#: Programs of their own, in which every request is alike.
WHOLE = {
    "gpu-shared": busy,
    "gpu-clock": busy,
    "gpu-launches": launches,
    "gpu-input": late_input,
}
