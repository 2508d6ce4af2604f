"""Wrapped functions behave as before: arguments, results, exceptions, and the kind of function."""

import asyncio
import inspect
import pickle
import sys
import traceback

from recorder import check, forget, recorder
from guestscope_sources import phases
import guestscope

OWN_FRAMES = sys.version_info < (3, 11)


def plain(a, b=2, *rest, c, d=4, **others):
    """Says it."""
    if a == "raise":
        raise ValueError("own")
    return a, b, rest, c, d, others


async def driven(a):
    await asyncio.sleep(0)
    if a == "raise":
        raise ValueError("own")
    return a


def steps(count):
    got = []
    for number in range(count):
        try:
            got.append((yield number))
        except KeyError as error:
            got.append(str(error))
    return got


async def async_steps(count):
    got = []
    for number in range(count):
        try:
            got.append((yield number))
        except KeyError as error:
            got.append(str(error))
    results.append(got)


results = []
originals = {"plain": plain, "driven": driven, "steps": steps, "async_steps": async_steps}
makers = {"plain": phases.sync, "driven": phases.coroutine, "steps": phases.generator, "async_steps": phases.asyncgen}
wrapped = {name: makers[name](function, name) for name, function in originals.items()}
globals().update(wrapped)
kinds = (inspect.isfunction, inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
for name, function in originals.items():
    assert inspect.signature(wrapped[name]) == inspect.signature(function)
    assert [kind(wrapped[name]) for kind in kinds] == [kind(function) for kind in kinds], name
    assert wrapped[name].__doc__ == function.__doc__ and wrapped[name].__qualname__ == function.__qualname__
    assert pickle.loads(pickle.dumps(wrapped[name])) is wrapped[name]


def frames(error):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def error_of(function, *arguments, **named):
    try:
        function(*arguments, **named)
    except BaseException as error:
        return error
    return None


assert plain(1, c=3) == (1, 2, (), 3, 4, {}) and plain(1, 2, 5, c=3, z=9) == (1, 2, (5,), 3, 4, {"z": 9})
error = error_of(plain, "raise", c=1)
assert OWN_FRAMES or frames(error) == ["error_of", "plain"], frames(error)
assert error.__context__ is None and error.__cause__ is None
error = error_of(plain, 1)
assert isinstance(error, TypeError) and (OWN_FRAMES or frames(error) == ["error_of"])
error = error_of(asyncio.run, driven("raise"))
assert frames(error)[-1] == "driven" and (OWN_FRAMES or not {"wrapper", "_drive"} & set(frames(error))), frames(error)
assert asyncio.run(driven(8)) == 8
forget()


def drive_by_hand(make):
    generator = make(3)
    out = [next(generator), generator.send("sent"), generator.throw(KeyError("thrown"))]
    try:
        generator.send("last")
    except StopIteration as result:
        return out, result.value


assert drive_by_hand(steps) == drive_by_hand(originals["steps"]) == ([0, 1, 2], ["sent", "'thrown'", "last"])
check("a generator", *["t1 %s p%d%s" % (word, number, " steps" if word == "begin" else "")
                       for number in range(7, 11) for word in ("begin", "end")])
generator = steps(2)
next(generator)
generator.close()
assert error_of(next, generator).__class__ is StopIteration


async def by_hand(make):
    generator = make(3)
    out = [await generator.__anext__(), await generator.asend("sent"), await generator.athrow(KeyError("thrown"))]
    try:
        await generator.asend("last")
    except StopAsyncIteration:
        pass
    closed = make(2)
    await closed.__anext__()
    await closed.aclose()
    return out


assert asyncio.run(by_hand(async_steps)) == asyncio.run(by_hand(originals["async_steps"])) == [0, 1, 2]
assert results == [["sent", "'thrown'", "last"]] * 2, results


# Cancellation reaches the program as it did, and phases end.
async def cancelled(make):
    seen = []

    async def waits():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as error:
            seen.append(frames(error))
            raise

    task = asyncio.ensure_future(make(waits)())
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return [name for name in seen[0] if name != "wrapper"]


forget()
without = asyncio.run(cancelled(lambda function: function))
assert asyncio.run(cancelled(lambda function: phases.coroutine(function, "w"))) == without or OWN_FRAMES
assert [line.split()[1] for line in recorder.take()] == ["begin", "leave", "enter", "end"]

# A coroutine that nobody awaits to its end is closed in another context: it harms no phase that is open
# there.
suspended = driven("never")
try:
    suspended.send(None)
except StopIteration:
    sys.exit("it was not suspended")


@guestscope.phase("outer")
async def outer():
    suspended.close()
    assert len(guestscope._open.get()) == 1
    with guestscope.phase("inner"):
        await asyncio.sleep(0)


forget()
asyncio.run(outer())
lines = [line.split(" ", 1)[1] for line in recorder.take()]
assert [line.split()[0] for line in lines] == ["begin", "enter", "end", "begin", "leave", "leave", "enter", "enter", "end", "end"], lines

# Outermost calls alone, and recursion.
fib = phases.outermost(lambda n: n if n < 2 else fib(n - 1) + fib(n - 2), lambda args, kwargs: "fib %d" % args[0], "fib")
forget()
assert fib(5) == 5
assert [line.split()[1] for line in recorder.take()] == ["begin", "end"]
named = phases.sync(lambda: 1, lambda args, kwargs: args[7])
assert named() == 1
assert recorder.take()[0].endswith(" <lambda>")
