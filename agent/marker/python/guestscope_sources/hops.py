"""Keeps a request's work on other threads, and in tasks that it creates, inside the request.

A function that goes to a pool enters the phases that were open where it was submitted, and leaves them at its
end. A task that is created inside a request enters it at each step. Both skip phases that have ended by then.
"""

import collections.abc
import functools

from . import finder
from .marker import marker
from .requests import current

_library = marker._library
_open, _live, _get_ident = marker._open, marker._live, marker.get_ident

ROWS = (
    ("concurrent.futures.thread", "ThreadPoolExecutor.submit", "pools.submit"),
    ("asyncio.base_events", "BaseEventLoop.create_task", "pools.create_task"),
    ("uvloop", "Loop.create_task", "pools.create_task"),
    ("anyio._backends._asyncio", "AsyncIOBackend.run_sync_in_worker_thread", "pools.anyio"),
)


def follow():
    """Follows requests from now on. Called by hooks that begin requests."""
    finder.watch(ROWS)


def _enter(chain):
    """Enters the open phases that are not on this thread; returns them."""
    thread = _get_ident()
    missing = tuple(token for token in chain if _live.get(token, thread) != thread)
    marker._enter(missing)
    return missing


def _leave(tokens):
    thread = _get_ident()
    for token in reversed(tokens):
        if _live.get(token) == thread:
            _live[token] = 0
        # Also those that have ended on another thread meanwhile, since this thread is still inside them.
        _library.guestscope_leave(token)


def hop(function):
    """The function for a call on another thread, inside the phases that are open here."""
    chain = _open.get()
    if not chain or not any(token in _live for token in chain):
        return function
    request = current.get()

    def there(*args, **kwargs):
        entered = _enter(chain)
        before, before_request = _open.get(), current.get()
        _open.set(chain)
        current.set(request)
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            for token in reversed(marker._beyond(chain)):
                marker._end(token)
            _open.set(before)
            current.set(before_request)
            _leave(entered)

    return functools.update_wrapper(there, function) if hasattr(function, "__name__") else there


class Carried(collections.abc.Coroutine):
    """A task's coroutine that runs inside the phases that were open where the task was created.

    An object of its own, not a coroutine around the coroutine: cancelling a task that has not begun must not
    leave one that was never awaited. What it does not have itself, it has of the coroutine.
    """

    __slots__ = ("_coroutine", "_chain", "_own", "__weakref__")

    def __init__(self, coroutine, chain=None):
        self._coroutine = coroutine
        self._chain = chain
        self._own = ()

    def send(self, value):
        return self._step(self._coroutine.send, value)

    def throw(self, *error):
        return self._step(self._coroutine.throw, *error)

    def close(self):
        self._coroutine.close()

    def __await__(self):
        return self

    __iter__ = __await__

    def __next__(self):
        return self.send(None)

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "_coroutine"), name)

    def _step(self, advance, *value):
        if self._chain is None:
            # From the first step on, the context is the task's own.
            self._chain = _open.get() or ()
        entered = _enter(self._chain)
        marker._enter(self._own)
        is_over = True
        try:
            yielded = advance(*value)
            is_over = False
            return yielded
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            self._own = marker._beyond(self._chain)
            if is_over:
                for token in reversed(self._own):
                    marker._end(token)
            else:
                marker._leave(self._own)
            marker._leave(entered)


async def stream(generator, request, note):
    """Items of an async generator as one request, left between two items. `note` is called at the end."""
    # A task that only asks for an item, `create_task(anext(...))`, has not entered the phases of its creator.
    around = _enter(_open.get() or ())
    token = request.begin()
    _live[token] = _get_ident()
    marker._leave((token,))
    _leave(around)
    step = generator.__anext__()
    try:
        while True:
            outer = _open.get()
            chain = (outer or ()) + (token,)
            _open.set(chain)
            try:
                item = await Carried(step.__await__(), chain)
            except StopAsyncIteration:
                return
            except BaseException as error:
                error.__traceback__ = error.__traceback__.tb_next
                raise
            finally:
                _open.set(outer)
            try:
                sent = yield item
            except GeneratorExit:
                await generator.aclose()
                raise
            except BaseException as error:
                error.__traceback__ = error.__traceback__.tb_next
                step = generator.athrow(error)
            else:
                step = generator.__anext__() if sent is None else generator.asend(sent)
    finally:
        if token in _live:
            note()
            marker._enter((token,))
            request.rename()
            marker._end(token)


def carry(coroutine):
    """The coroutine of a task that is created here."""
    chain = _open.get()
    if not chain or type(coroutine).__name__ != "coroutine" or not any(token in _live for token in chain):
        return coroutine
    return Carried(coroutine)
