"""Work on a GPU with phases, for measure.py: on a real card by PyTorch, or on the stub of CUDA's library.

    program.py serve LOG BATCH REQUESTS [blocking]   requests of h2d, inference, sync, postprocess
    program.py calls LOG CALLS                       synchronises an idle stream again and again
    program.py decode LOG SECONDS                    300 small kernels and one synchronisation for each token
    program.py neighbour LOG                         keeps the card busy until it is ended

LOG gets what the program measured itself, as JSON; that of the neighbour comes when it computes. EVIDENCE_STUB names the stub; without it there is a card.
"""

import ctypes
import json
import os
import sys
import time

#: CU_CTX_SCHED_BLOCKING_SYNC of CUDA's driver API: a thread that synchronises sleeps.
BLOCKING_SYNC = 4
#: Kernels of one token: what a decoder of 7 billion parameters launches, about.
KERNELS = 300
#: Requests that are not measured: the first ones compile, allocate and choose kernels.
WARM_UP = 10
#: The agent finds a library that is loaded late within a second, s.
FOUND = 2


def bottleneck(nn, wide, narrow, out, stride):
    """A residual block of ResNet-50."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(wide, narrow, 1, bias=False),
                nn.BatchNorm2d(narrow),
                nn.ReLU(),
                nn.Conv2d(narrow, narrow, 3, stride, 1, bias=False),
                nn.BatchNorm2d(narrow),
                nn.ReLU(),
                nn.Conv2d(narrow, out, 1, bias=False),
                nn.BatchNorm2d(out),
            )
            is_same = wide == out and stride == 1
            self.beside = nn.Identity() if is_same else nn.Conv2d(wide, out, 1, stride, bias=False)

        def forward(self, x):
            return (self.body(x) + self.beside(x)).relu()

    return Block()


def resnet50(nn):
    """ResNet-50 with random weights: its time does not depend on them."""
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    wide = 64
    for narrow, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(count):
            layers.append(bottleneck(nn, wide, narrow, 4 * narrow, stride if block == 0 else 1))
            wide = 4 * narrow
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


class Card:
    """A real card."""

    def __init__(self, is_blocking=False):
        if is_blocking:
            cuda, device = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
            for code in (
                cuda.cuInit(0),
                cuda.cuDeviceGet(ctypes.byref(device), 0),
                cuda.cuDevicePrimaryCtxSetFlags_v2(device, BLOCKING_SYNC),
            ):
                if code:
                    raise OSError(f"libcuda: error {code}")
        import torch

        self.torch = torch
        self.begin, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def load(self, batch):
        self.model = resnet50(self.torch.nn).cuda().eval()
        self.host = self.torch.randn(batch, 3, 224, 224).pin_memory()

    def to_device(self):
        self.input = self.host.cuda(non_blocking=True)

    def launch(self):
        with self.torch.inference_mode():
            self.begin.record()
            self.output = self.model(self.input)
            self.end.record()

    def wait(self):
        self.torch.cuda.current_stream().synchronize()

    def on_device_ns(self):
        """Time of the last launch on the device, by CUDA's events."""
        return int(self.begin.elapsed_time(self.end) * 1e6)

    def back(self):
        self.output.argmax(1).cpu()

    def small_kernels(self):
        if not hasattr(self, "vector"):
            self.vector = self.torch.zeros(1024, device="cuda")
        for _ in range(KERNELS):
            self.vector.add_(1)

    def big_kernel(self):
        if not hasattr(self, "matrix"):
            self.matrix = self.torch.randn(8192, 8192, device="cuda")
        self.torch.mm(self.matrix, self.matrix)


class Stub:
    """The stub: batches of 8 and more keep the device busy, smaller ones the thread that launches."""

    def __init__(self, is_blocking=False):
        self.library = ctypes.CDLL(os.environ["EVIDENCE_STUB"])
        self.library.cuStreamSynchronize.argtypes = [ctypes.c_void_p]
        self.library.cuLaunchKernel.argtypes = [ctypes.c_void_p] + 7 * [ctypes.c_uint32] + 3 * [ctypes.c_void_p]
        self.library.stub_kernel.restype = ctypes.c_void_p
        self.library.stub_kernel.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
        self.order = 1 if is_blocking else 0
        self.library.cuInit(0)
        self.small = self.library.stub_kernel(b"small", 100)

    def load(self, batch):
        self.is_small = batch < 8
        self.kernel = self.library.stub_kernel(b"serve", self.on_device_ns())

    def to_device(self):
        pass

    def start(self, kernel):
        self.library.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)

    def launch(self):
        self.start(self.kernel)
        if self.is_small:
            until_ns = time.perf_counter_ns() + 5_000_000
            while time.perf_counter_ns() < until_ns:
                pass

    def wait(self, wait_ns=None):
        if wait_ns is None:
            wait_ns = self.on_device_ns()
        self.library.cuStreamSynchronize(wait_ns << 3 | self.order)

    def on_device_ns(self):
        return 50_000 if self.is_small else 15_000_000

    def back(self):
        pass

    def small_kernels(self):
        for _ in range(KERNELS):
            self.start(self.small)
        self.is_small = True

    def big_kernel(self):
        self.wait(10_000_000)


def serve(card, batch, requests):
    import guestscope

    card.load(batch)
    for _ in range(WARM_UP):
        card.to_device()
        card.launch()
        card.wait()
        card.back()
    time.sleep(FOUND)
    sync_ns = device_ns = 0
    for number in range(1, requests + 1):
        with guestscope.request("serve", number) as request:
            request.next("h2d")
            card.to_device()
            request.next("inference")
            card.launch()
            request.next("sync")
            begin_ns = time.perf_counter_ns()
            card.wait()
            sync_ns += time.perf_counter_ns() - begin_ns
            request.next("postprocess")
            device_ns += card.on_device_ns()
            card.back()
    return {"requests": requests, "sync_ns": sync_ns, "device_ns": device_ns}


def warm(card):
    card.small_kernels()
    card.wait()
    time.sleep(FOUND)


def calls(card, count):
    warm(card)
    wait = card.wait if isinstance(card, Card) else lambda: card.wait(0)
    begin_ns = time.perf_counter_ns()
    for _ in range(count):
        wait()
    return {"calls": count, "ns": time.perf_counter_ns() - begin_ns}


def decode(card, seconds):
    warm(card)
    tokens, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        card.small_kernels()
        card.wait()
        tokens += 1
    return {"tokens_per_s": tokens / (time.perf_counter() - begin)}


def neighbour(card, log):
    while True:
        for _ in range(20):
            card.big_kernel()
        if isinstance(card, Card):
            card.wait()
        with open(log, "w") as file:
            json.dump({}, file)


def main():
    kind, log, *words = sys.argv[1:]
    is_blocking = words[-1:] == ["blocking"]
    numbers = [int(word) for word in words if word != "blocking"]
    card = (Stub if "EVIDENCE_STUB" in os.environ else Card)(is_blocking)
    if kind == "neighbour":
        neighbour(card, log)
    found = {"serve": serve, "calls": calls, "decode": decode}[kind](card, *numbers)
    with open(log, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
