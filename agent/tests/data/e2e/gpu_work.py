"""`gpu_work.py KIND REQUESTS`: has stubs of CUDA's library do known work for requests. STUB_CUDA names the stub.

Kinds: `plain` (kernels, copies, a graph and a fill by the request's own thread), `tasks` (requests that take
turns on one thread), `fork` (a child that exits first), `busy`, `copying` and `launching` (what takes the
time of each request).
"""

import asyncio
import ctypes
import os
import sys
import time

import guestscope

KERNELS = 4
KERNEL_US, GRAPH_US, COPY_US = 300, 200, 150
BYTES = 65536


class Gpu:
    def __init__(self):
        self.stub = ctypes.CDLL(os.environ["STUB_CUDA"])
        self.stub.stub_kernel.restype = ctypes.c_void_p
        self.stub.stub_kernel.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
        self.stub.cuLaunchKernel.argtypes = [ctypes.c_void_p] + 7 * [ctypes.c_uint32] + 3 * [ctypes.c_void_p]
        self.stub.cuStreamSynchronize.argtypes = [ctypes.c_void_p]
        self.stub.stub_launch_graph.argtypes = [ctypes.c_uint64, ctypes.c_void_p]
        self.stub.cuMemcpyHtoDAsync_v2.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p]
        self.host, self.device = (ctypes.create_string_buffer(BYTES) for _ in range(2))
        self.kernels = {}
        self.stub.cuInit(0)

    def kernel(self, name, us, stream=0):
        key = name, us
        if key not in self.kernels:
            self.kernels[key] = self.stub.stub_kernel(name.encode(), int(us * 1000))
        self.stub.cuLaunchKernel(self.kernels[key], 1, 1, 1, 1, 1, 1, 0, stream << 3, None, None)

    def copy(self, us):
        self.stub.cuMemcpyHtoDAsync_v2(self.device, self.host, BYTES, int(us * 1000) << 3)

    def graph(self, us):
        self.stub.stub_launch_graph(int(us * 1000), None)

    def wait(self, stream=0):
        self.stub.cuStreamSynchronize(stream << 3 | 5)


def plain(gpu, requests):
    for number in range(1, requests + 1):
        with guestscope.request("plain", number) as request:
            request.next("copy")
            gpu.copy(COPY_US)
            request.next("inference")
            for _ in range(KERNELS):
                # As a compiler names `step<N>(int)`.
                gpu.kernel(f"_Z4stepILi{number}EEvi", KERNEL_US)
            gpu.graph(GRAPH_US)
            request.next("sync")
            gpu.wait()
        time.sleep(0.002)


async def task(gpu, number):
    with guestscope.phase("first"):
        gpu.kernel(f"first_{number}", 50)
        await asyncio.sleep(0.002)
    with guestscope.phase("second"):
        await asyncio.sleep(0.002)
        gpu.kernel(f"second_{number}", 50)


async def tasks(gpu, requests):
    for begin in range(1, requests + 1, 8):
        numbers = range(begin, min(begin + 8, requests + 1))
        await asyncio.gather(*(guestscope.task(task(gpu, number), name="task", request=number) for number in numbers))


def spin(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def bound(gpu, kind, requests):
    for number in range(1, requests + 1):
        with guestscope.request(kind, number) as request:
            request.next("launch")
            if kind == "launching":
                for _ in range(10):
                    spin(0.0004)
                    gpu.kernel("small", 20)
            elif kind == "busy":
                for _ in range(10):
                    gpu.kernel("large", 400)
            else:
                gpu.copy(4000)
                gpu.kernel("small", 20)
            request.next("sync")
            gpu.wait()


def main():
    kind, requests = sys.argv[1], int(sys.argv[2])
    gpu = Gpu()
    # The first window opens when the library has met the agent.
    time.sleep(0.2)
    if kind == "fork":
        child = os.fork()
        if child == 0:
            sys.exit(0)
        os.waitpid(child, 0)
        plain(gpu, requests)
    elif kind == "plain":
        plain(gpu, requests)
    elif kind == "tasks":
        asyncio.run(tasks(gpu, requests))
    else:
        bound(gpu, kind, requests)


if __name__ == "__main__":
    main()
