"""Requests that never end, that share a thread, or that nobody tracks."""

import asyncio
import json
import os
import signal
import threading

from parts import call_itself, compute, facts, libc, sleep


def note():
    with open(os.environ["E2E_BOOK"], "w") as book:
        json.dump(facts, book)


def healthy(first, count):
    import guestscope

    for number in range(first, first + count):
        with guestscope.request("serve", number) as request:
            request.next("prepare")
            compute(1)
            request.next("work")
            compute(2)


def fork_with_lock(ms, is_faulty):
    """A child that was forked while a thread had a lock waits for it for ever."""
    import guestscope

    lock, is_held = threading.Lock(), threading.Event()

    def hold():
        with lock:
            is_held.set()
            sleep(300)

    if is_faulty:
        threading.Thread(target=hold, daemon=True).start()
        is_held.wait()
    healthy(1, 40)
    child = os.fork()
    if child == 0:
        with guestscope.request("serve", 41) as request:
            request.next("prepare")
            compute(1)
            request.next("tokenize")
            with lock:
                pass
        os._exit(0)
    facts["child_pid"] = child
    note()
    if is_faulty:
        sleep(1500 + ms)
        os.kill(child, 9)
    os.waitpid(child, 0)


def deadlock(ms, is_faulty):
    """Two threads each have the lock that the other waits for."""
    import guestscope

    first, second = threading.Lock(), threading.Lock()
    both = threading.Barrier(2)

    def other():
        call_itself("evictor")
        facts["evictor_tid"] = threading.get_native_id()
        with second:
            both.wait()
            with first:
                pass

    def serve():
        call_itself("server")
        facts["server_tid"] = threading.get_native_id()
        healthy(1, 40)
        with guestscope.request("serve", 41) as request:
            request.next("prepare")
            compute(1)
            request.next("insert")
            if not is_faulty:
                return
            with first:
                both.wait()
                with second:
                    pass

    for work in (other, serve) if is_faulty else (serve,):
        threading.Thread(target=work, daemon=True).start()
    sleep(1800 + ms)
    note()
    os._exit(0)


def untracked(ms, is_faulty):
    """Marks of a thread that came when the places for threads were taken."""
    idle = [threading.Thread(target=sleep, args=(1500 + ms,), daemon=True) for _ in range(30)]
    for thread in idle if is_faulty else []:
        thread.start()
    server = threading.Thread(target=healthy, args=(1, 40))
    server.start()
    server.join()
    note()
    os._exit(0)


def loop(ms, is_faulty):
    """Three requests block the event loop in which all take turns."""
    import guestscope

    async def handle(number):
        with guestscope.phase("parse"):
            compute(0.3)
        await asyncio.sleep(0.02)
        if is_faulty and number % 50 == 27:
            with guestscope.phase("rerank"):
                compute(3 * ms)
        with guestscope.phase("score"):
            compute(0.5)
        await asyncio.sleep(0.02)
        with guestscope.phase("respond"):
            compute(0.3)

    async def main():
        tasks = []
        for number in range(1, 151):
            tasks.append(asyncio.ensure_future(guestscope.task(handle(number), name="serve", request=number)))
            await asyncio.sleep(0.007)
        await asyncio.gather(*tasks)

    asyncio.run(main())
    note()


def fork_large(ms, is_faulty):
    """A thread forks a large process: meanwhile nobody else may change the address space. It has a CPU of its own:
    otherwise half of those that it slows down stand in that CPU's queue instead."""
    import guestscope
    from processor import fresh

    size = int(60 * ms) << 20
    libc.memset(fresh(size), 1, size)
    small = fresh(128 << 20)
    reader, writer = os.pipe()
    is_over = []
    cpus = sorted(os.sched_getaffinity(0))

    def forks():
        call_itself("forker")
        facts["forker_tid"] = threading.get_native_id()
        os.sched_setaffinity(0, cpus[:1])
        while not is_over:
            os.read(reader, 1)
            if not is_faulty:
                continue
            # The call gives the interpreter's lock away: in the child nobody gives it back.
            child = libc.fork()
            if child == 0:
                libc._exit(0)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    thread = threading.Thread(target=forks, daemon=True)
    thread.start()
    os.sched_setaffinity(0, cpus[1:] or cpus)
    for number in range(1, 73):
        with guestscope.request("serve", number) as request:
            request.next("prepare")
            compute(1)
            request.next("work")
            if number % 12 == 6:
                os.write(writer, b"x")
                compute(0.5)
            libc.memset(small + (number << 20), 1, 1 << 20)
            compute(1)
        sleep(1)
    note()
    os._exit(0)


KINDS = {
    "hung-after-fork": fork_with_lock,
    "deadlock": deadlock,
    "untracked": untracked,
    "loop-blocked": loop,
    "fork-large": fork_large,
}
