"""Mark the phases of a Python program for guestscope.

    import guestscope

    with guestscope.request("classify", 7) as request:
        request.next("preprocess")          # without a gap: from the start of the request
        ...
        request.next("inference")           # to here, and so on to the end of the request
        headers["traceparent"] = request.traceparent

    with guestscope.phase("load"):          # one by itself
        ...

    @guestscope.phase("inference")          # a function, or an async function
    def infer(batch): ...

    await guestscope.task(handle(query), name="request", request=7)     # asyncio

One file over ctypes, Python 3.8 or newer, no dependency. It looks for libguestscope.so.1 where
GUESTSCOPE_LIBRARY says, beside this file, and where the system's loader looks. Without it `available` is
False and every call does nothing.

In asyncio many requests take turns on one thread. A phase opened by a plain `with` or `async with` stays the
thread's while its task is suspended, so that others' time would be charged to it; `task` and the decorator of
an async function therefore leave their phase, and every phase opened within, whenever the coroutine is
suspended, and enter them again before it goes on. A task that is created inside of another one begins a trace
of its own.
"""

import contextvars
import ctypes
import functools
import inspect
import operator
import os
import types
from _thread import get_ident

__all__ = ["available", "context", "mark", "phase", "request", "task", "traceparent"]

_HEADER_BYTES = 55

# Open tokens of the driven coroutines (see `_drive`) around this context, outermost first; None outside of
# all. A tuple, because a task that is created inside gets a copy of the variable, and must not share later
# changes.
_open = contextvars.ContextVar("guestscope_open", default=None)

# Tokens that have not ended, since copies of the variable outlive them, with the thread that each is on; 0:
# none.
_live = {}


def _candidates():
    named = os.environ.get("GUESTSCOPE_LIBRARY")
    if named:
        yield named
    beside = os.path.dirname(os.path.abspath(__file__))
    yield os.path.join(beside, "libguestscope.so.1")
    yield os.path.join(beside, "libguestscope.so")
    yield "libguestscope.so.1"


def _declare(library):
    u64, size, text = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_char_p
    for name, result, arguments in (
        ("begin", u64, [text, size, u64]),
        ("request", u64, [text, size, u64, u64]),
        ("end", None, [u64]),
        ("first", u64, [u64, text, size]),
        ("next", u64, [u64, text, size]),
        ("end_both", None, [u64, u64]),
        ("leave", None, [u64]),
        ("enter", None, [u64]),
        ("context", None, [u64, text, text]),
        ("traceparent", size, [u64, text, size]),
        ("mark", None, [text, size]),
    ):
        function = getattr(library, "guestscope_" + name)
        function.restype, function.argtypes = result, arguments
    return _declare_sources(library)


def _declare_sources(library):
    """Adds calls that an older library does not have."""
    u32, u64, size, text = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_char_p
    for name, result, arguments, instead in (
        ("begin_from", u64, [u32, text, size, u64], lambda _, *rest: library.guestscope_begin(*rest)),
        ("request_from", u64, [u32, text, size, u64, u64], lambda _, *rest: library.guestscope_request(*rest)),
        ("rename", None, [u64, text, size, u64], lambda *_: None),
        ("tell", None, [u32, text, size], lambda *_: None),
    ):
        try:
            function = getattr(library, "guestscope_" + name)
        except AttributeError:
            setattr(library, "guestscope_" + name, instead)
            continue
        function.restype, function.argtypes = result, arguments
    return library


def _load():
    for path in _candidates():
        try:
            # PyDLL keeps the interpreter's lock during a call. Releasing it for some nanoseconds would let
            # another thread take it, and the marked phase would wait for it: the marker would cause what it
            # measures.
            return _declare(ctypes.PyDLL(path)), _declare(ctypes.CDLL(path))
        except (OSError, AttributeError):
            continue
    return None, None


_library, _unlocked = _load()

#: Whether the library was found. Without it every call does nothing.
available = _library is not None


def _meet():
    # The library meets an agent as it is loaded, and where that is refused a forked child may do so again: it
    # waits without the interpreter's lock. Outside of all phases the call fires nothing.
    _unlocked.guestscope_traceparent(0, ctypes.create_string_buffer(_HEADER_BYTES + 1), _HEADER_BYTES + 1)


if available:
    _meet()
    os.register_at_fork(after_in_child=_meet)


def _encode(name):
    if not isinstance(name, str):
        raise TypeError("name must be a str, not " + type(name).__name__)
    return name.encode("utf-8", "replace")


def _header(token):
    if not available:
        return None
    text = ctypes.create_string_buffer(_HEADER_BYTES + 1)
    return text.value.decode("ascii") if _library.guestscope_traceparent(token, text, _HEADER_BYTES + 1) else None


def _id(value, length, what):
    value = bytes.fromhex(value) if isinstance(value, str) else bytes(value)
    if len(value) != length:
        raise ValueError("%s must have %d bytes, not %d" % (what, length, len(value)))
    return value


def _join(token, trace_id, parent_span_id):
    trace_id = _id(trace_id, 16, "trace_id")
    parent_span_id = _id(parent_span_id, 8, "parent_span_id")
    if available:
        _library.guestscope_context(token, trace_id, parent_span_id)


class phase:
    """A phase: `with phase("x"):`, `async with phase("x"):`, or `@phase("x")` over a function or async
    function.

    For `with`, threads and tasks that run side by side need an object each; a decorated function may be
    called by all.
    """

    __slots__ = ("_name", "_stack")

    def __init__(self, name):
        self._name = _encode(name)
        # For each time that it is open: its token, and the token of the phase that `next` began inside it, 0
        # for none.
        self._stack = []

    def _begin(self):
        return _library.guestscope_begin(self._name, len(self._name), 0)

    def __enter__(self):
        if available:
            token = self._begin()
            self._stack.append((token, 0))
            driven = _open.get()
            if driven is not None:
                _live[token] = get_ident()
                _open.set(driven + (token,))
        return self

    def __exit__(self, *exception):
        if self._stack:
            token, inner = self._stack.pop()
            if inner:
                _library.guestscope_end_both(inner, token)
            else:
                _library.guestscope_end(token)
            driven = _open.get()
            if driven is not None:
                _live.pop(token, None), _live.pop(inner, None)
                _open.set(tuple(other for other in driven if other not in (token, inner)))
        return False

    async def __aenter__(self):
        return self.__enter__()

    async def __aexit__(self, *exception):
        return self.__exit__(*exception)

    def __call__(self, function):
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("a generator has no single phase: open one inside of it")
        if not callable(function):
            raise TypeError("phase decorates functions, not " + type(function).__name__)
        if not available:
            return function
        begin = self._begin
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def driven(*arguments, **named):
                return await _drive(function(*arguments, **named), begin)

            return driven

        end = _library.guestscope_end

        @functools.wraps(function)
        def called(*arguments, **named):
            token = begin()
            try:
                return function(*arguments, **named)
            finally:
                end(token)

        return called

    def next(self, name):
        """From here on this phase is in a phase `name` within it, until the next call or until it ends
        itself.

        What it was in ends at the same instant, and the last one ends with this phase, so that nothing lies
        between them, where two `with` have some microseconds. The first one of a request, or of another
        outermost phase, begins when that did, unless an `await` or another phase came before: call it at
        once, since what the program waits for before it is shown in the request itself.

        Call it on the thread and in the task of its `with`, and where no phase that was opened within is
        still open. Outside of its `with` nothing happens, nor in a `task` or decorated coroutine inside of
        it.
        """
        name = _encode(name)
        if not self._stack:
            return
        token, inner = self._stack[-1]
        driven = _open.get()
        # The innermost open phase is another driver's, or was opened inside this one.
        if driven is not None and (not driven or driven[-1] not in (token, inner)):
            return
        if inner:
            begun = _library.guestscope_next(inner, name, len(name))
        else:
            begun = _library.guestscope_first(token, name, len(name))
        self._stack[-1] = (token, begun)
        if driven is not None:
            _live.pop(inner, None)
            _live[begun] = get_ident()
            _open.set(tuple(other for other in driven if other != inner) + (begun,))

    @property
    def token(self):
        """The token of the phase while it is open; 0 otherwise."""
        return self._stack[-1][0] if self._stack else 0

    @property
    def traceparent(self):
        """The W3C header that makes a callee's spans children of this phase; None while it is not open."""
        return _header(self._stack[-1][0]) if self._stack else None

    def context(self, trace_id, parent_span_id):
        """Lets this phase's request join a trace; ids as bytes or hexadecimal, in the order of the header."""
        if self.token or not available:
            _join(self.token, trace_id, parent_span_id)


class request(phase):
    """A request: like `phase`, but always the outermost phase of a trace of its own, with a number.

    `scheduled_ns` is when an open-loop load generator wanted it to begin, on `time.monotonic_ns()`'s clock.
    """

    __slots__ = ("_number", "_scheduled_ns")

    def __init__(self, name, number=0, scheduled_ns=None):
        super().__init__(name)
        self._number = operator.index(number)
        self._scheduled_ns = 0 if scheduled_ns is None else operator.index(scheduled_ns)

    def _begin(self):
        return _library.guestscope_request(self._name, len(self._name), self._number, self._scheduled_ns)


def mark(name):
    """Marks an instant within the innermost phase of this thread."""
    name = _encode(name)
    if available:
        _library.guestscope_mark(name, len(name))


def traceparent():
    """The W3C header of the request (or outermost phase) that this thread is inside; None outside."""
    return _header(0)


def context(trace_id, parent_span_id):
    """Lets the request (or outermost phase) that this thread is inside join a trace."""
    _join(0, trace_id, parent_span_id)


async def task(awaitable, name=None, request=None, scheduled_ns=None):
    """Awaits `awaitable` as a request (with a number) or a phase (without), and returns its result.

    The phase is left whenever the awaitable is suspended. For a task of its own:
    `asyncio.create_task(task(...))`. Phases that join are those of a `with phase(...)` in the awaitable.
    """
    if name is None:
        name = "request" if request is not None else getattr(awaitable, "__qualname__", type(awaitable).__name__)
    marked = _phase(name) if request is None else _request(name, request, scheduled_ns)
    if not available:
        return await awaitable
    return await _drive(awaitable, marked._begin)


# `task` has a parameter of the class's name.
_phase, _request = phase, request


@types.coroutine
def _drive(awaitable, begin, finish=None):
    """Runs the awaitable step by step; between two steps every phase that it has open is left.

    Drivers nest: an inner one has left its own phases, and taken them off the variable, before an outer one
    sees the suspension, and enters them again after it. `finish` is told the token before that ends.
    """
    steps = awaitable.__await__() if hasattr(awaitable, "__await__") else awaitable
    send = getattr(steps, "send", None) or (lambda _: next(steps))
    advance = functools.partial(send, None)
    outer = _open.get()
    token = begin()
    own = (token,)
    _live[token] = get_ident()
    _open.set((outer or ()) + own)
    try:
        while True:
            try:
                waited_for = advance()
            except StopIteration as result:
                return result.value
            own = _beyond(outer)
            _leave(own)
            _open.set(outer)
            try:
                advance = functools.partial(send, (yield waited_for))
            except BaseException as error:  # Cancellation and closing are the coroutine's to handle.
                error.__traceback__ = error.__traceback__.tb_next
                advance = functools.partial(_throw, steps, error)
            # A coroutine that nobody awaits may be closed in any context.
            outer = _open.get()
            _open.set((outer or ()) + own)
            _enter(own)
    except BaseException as error:
        # The traceback is the awaitable's own (from Python 3.11 on).
        error.__traceback__ = error.__traceback__.tb_next
        raise
    finally:
        if finish is not None and token in _live:
            finish(token)
        # What the coroutine left open ends with it, innermost first.
        for token in reversed(_beyond(outer)):
            _end(token)
        _open.set(outer)


def _beyond(outer):
    """Phases open here beyond those of the drivers around this one."""
    open_here, outer = _open.get() or (), outer or ()
    if open_here[: len(outer)] == outer:
        return open_here[len(outer) :]
    return tuple(token for token in open_here if token not in outer)


def _leave(tokens):
    for token in reversed(tokens):
        if token in _live:
            _live[token] = 0
            _library.guestscope_leave(token)


def _enter(tokens):
    for token in tokens:
        if token in _live:
            _live[token] = get_ident()
            _library.guestscope_enter(token)


def _end(token):
    """Ends the phase, unless it has ended already."""
    if _live.pop(token, None) is not None:
        _library.guestscope_end(token)


def _throw(steps, error):
    throw = getattr(steps, "throw", None)
    if throw is None:
        raise error
    return throw(error)
