"""What a range of the package nvtx costs: `ranges.py COUNT` prints ns a range."""

import json
import sys
import time

import nvtx

count = int(sys.argv[1])


def fire(times):
    push, pop = nvtx.push_range, nvtx.pop_range
    begin = time.perf_counter_ns()
    for _ in range(times):
        push("range")
        pop()
    return time.perf_counter_ns() - begin


fire(1000)
print(json.dumps({"ns": fire(count) / count}))
