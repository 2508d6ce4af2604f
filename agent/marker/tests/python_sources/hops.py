"""A request stays one on other threads and in tasks; functions and tasks that outlive it do no harm."""

import asyncio
import concurrent.futures
import gc
import sys
import threading
import warnings

from recorder import check, forget, recorder
from guestscope_sources import hops, phases, requests
import guestscope

hops.follow()
pool = concurrent.futures.ThreadPoolExecutor(1)
pool.submit(int).result()
warnings.simplefilter("error")


def work(name="work"):
    with phases.Phase(name):
        return name


def served(handler):
    forget()
    request = requests.of_http("GET")
    result = asyncio.run(requests.drive(handler(request), request))
    lines = recorder.take()
    assert not guestscope._live, guestscope._live
    return result, lines


def on(thread, lines):
    return [line.split(" ", 1)[1] for line in lines if line.startswith(thread + " ")]


async def to_the_pool(request):
    loop = asyncio.get_running_loop()
    return [await loop.run_in_executor(pool, work), await loop.run_in_executor(pool, work, "again")]


result, lines = served(to_the_pool)
assert result == ["work", "again"]
pooled = [line for line in lines if not line.startswith("t1 ")]
assert [line.split()[1] for line in pooled] == ["enter", "begin", "end", "leave"] * 2, lines
assert len([line for line in lines if "request" in line]) == 1


# A phase that is open goes along; one that has ended does not.
async def with_a_phase(request):
    with guestscope.phase("model"):
        await asyncio.get_running_loop().run_in_executor(pool, work)
        late = pool.submit(lambda: threading.Event().wait(0.05) and None or work("late"))
    await asyncio.wrap_future(late)


result, lines = served(with_a_phase)
pooled = [line.split()[1] for line in lines if not line.startswith("t1 ")]
assert pooled[:6] == ["enter", "enter", "begin", "end", "leave", "leave"], lines


# Tasks of a request are inside it at each step.
async def child(name):
    await asyncio.sleep(0)
    work(name)
    return name


async def with_tasks(request):
    return await asyncio.gather(child("one"), asyncio.create_task(child("two")))


result, lines = served(with_tasks)
assert result == ["one", "two"]
inside, names = set(), {}
for line in lines:
    _, word, which, *name = line.split()
    if word in ("request", "begin", "enter"):
        if word == "begin":
            assert "r" in {token[0] for token in inside}, (line, lines)
        inside.add(which)
    elif word in ("leave", "end"):
        inside.discard(which)


# A task object is a task's: it is cancelled before it began without a warning, and says where it waits.
async def cancelled_early(request):
    task = asyncio.create_task(child("never"))
    assert asyncio.iscoroutine(task.get_coro()) and task.get_coro().__name__ == "child"
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    waiting = asyncio.create_task(child("waits"), name="mine")
    await asyncio.sleep(0)
    assert [frame.f_code.co_name for frame in waiting.get_stack()] == ["child"], waiting.get_stack()
    return await waiting


assert served(cancelled_early)[0] == "waits"
gc.collect()


# A task and a call that outlive the request.
async def outliving(request):
    started, go = threading.Event(), threading.Event()

    def call():
        started.set()
        go.wait()
        work("behind")

    async def background():
        while not go.is_set():
            await asyncio.sleep(0)
        work("task")

    future = pool.submit(call)
    left.append(asyncio.get_running_loop().create_task(background()))
    await asyncio.get_running_loop().run_in_executor(None, started.wait)
    rest.append((future, go))


async def main():
    request = requests.of_http("GET")
    await requests.drive(outliving(request), request)
    future, go = rest[0]
    go.set()
    await left[0]
    await asyncio.wrap_future(future)


left, rest = [], []
forget()
asyncio.run(main())
lines = recorder.take()
ended = next(at for at, line in enumerate(lines) if line.split()[1] == "end" and line.split()[2].startswith("r"))
behind = [line for line in lines[ended:] if "enter r" in line]
assert not behind, lines
assert sum("leave r" in line for line in lines if not line.startswith("t1 ")) >= 1
assert not guestscope._live


# Errors come through with their own tracebacks; results are the functions' own.
def fails():
    raise LookupError("own")


async def failing(request):
    try:
        await asyncio.get_running_loop().run_in_executor(pool, fails)
    except LookupError as error:
        names, traceback = [], error.__traceback__
        while traceback:
            names.append(traceback.tb_frame.f_code.co_name)
            traceback = traceback.tb_next
        return names


names = served(failing)[0]
assert sys.version_info < (3, 11) or (names[0], names[-1], set(names[1:-1])) == ("failing", "fails", {"run"}), names


# Outside of requests no phase follows a function or task.
assert hops.hop(work) is work
coroutine = child("plain")
assert hops.carry(coroutine) is coroutine
coroutine.close()

# A response that is whole ends the request, whoever says so; what follows is not in it.
async def responds(request):
    await asyncio.create_task(completes(request))
    work("background")


async def completes(request):
    request.note("200 OK")
    request.route = "/items/{id}"
    request.complete()


forget()
result, lines = served(responds)
assert [line.split(" ", 1)[1] for line in lines if "leave" not in line and "enter" not in line] == [
    "request r%d GET #%d" % (int(lines[0].split()[2][1:]), int(lines[0].split("#")[1])),
    "rename %s GET /items/{id} 200" % lines[0].split()[2],
    "end %s" % lines[0].split()[2],
    "begin p%d background" % (int(lines[0].split()[2][1:]) + 1),
    "end p%d" % (int(lines[0].split()[2][1:]) + 1),
], lines
check("nothing is left")
