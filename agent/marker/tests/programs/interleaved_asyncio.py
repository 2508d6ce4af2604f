"""Runs requests that take turns on one asyncio thread; README.md says what they do and print."""

import argparse
import asyncio
import json
import os
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))

import guestscope  # noqa: E402  (found by the line above)


def work(duration_ns):
    """Burns that much CPU time of this thread and returns how much it was."""
    start_ns = time.thread_time_ns()
    while time.thread_time_ns() - start_ns < duration_ns:
        pass
    return time.thread_time_ns() - start_ns


@guestscope.phase("prepare")
async def prepare(work_ns):
    return {"name": "prepare", "busy_ns": work(work_ns), "await_ns": 0}


@guestscope.phase("fetch")
async def fetch(await_ns):
    await asyncio.sleep(await_ns / 1e9)
    return {"name": "fetch", "busy_ns": 0, "await_ns": await_ns}


async def finish(work_ns, await_ns):
    # A plain `with`: the driver of the request leaves and enters it too.
    with guestscope.phase("finish"):
        busy_ns = work(work_ns // 2)
        await asyncio.sleep(await_ns / 2e9)
        busy_ns += work(work_ns // 2)
        return {"name": "finish", "busy_ns": busy_ns, "await_ns": await_ns // 2}


async def handle(number, work_ns, await_ns):
    start_ns = time.monotonic_ns()
    guestscope.mark("started")
    header = guestscope.traceparent()
    phases = [await prepare(work_ns), await fetch(await_ns), await finish(work_ns, await_ns)]
    line = {
        "program": "interleaved_asyncio",
        "request": number,
        "traceparent": header,
        "wall_ns": time.monotonic_ns() - start_ns,
        "busy_ns": sum(phase["busy_ns"] for phase in phases),
        "await_ns": sum(phase["await_ns"] for phase in phases),
        "phases": phases,
    }
    print(json.dumps(line), flush=True)


async def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=4)
    parser.add_argument("--work-ms", type=int, default=10)
    parser.add_argument("--await-ms", type=int, default=40)
    options = parser.parse_args()
    work_ns, await_ns = options.work_ms * 1_000_000, options.await_ms * 1_000_000
    await asyncio.gather(
        *(
            guestscope.task(handle(number, work_ns, await_ns), name="request", request=number)
            for number in range(1, options.requests + 1)
        )
    )


if __name__ == "__main__":
    asyncio.run(main())
