"""Ranges of the package nvtx: nested, with a payload, and one that another thread ends."""

import threading

import nvtx

for number in range(1, 6):
    with nvtx.annotate("request", payload=number):
        with nvtx.annotate("decode", domain="data", category="io"):
            pass
        nvtx.mark("here")
ranges = [nvtx.start_range("crossing") for _ in range(2)]
thread = threading.Thread(target=lambda: [nvtx.end_range(one) for one in reversed(ranges)])
thread.start()
thread.join()
print(nvtx.push_range("x"), nvtx.pop_range(), nvtx.pop_range())
