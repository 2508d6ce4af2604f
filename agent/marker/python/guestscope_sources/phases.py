"""Functions for hooks: phases around functions, coroutines and generators; a source's reports.

Wrappers change neither arguments nor results nor exceptions. From Python 3.11 on tracebacks do not show them
either: each removes its own frame with `error.__traceback__ = error.__traceback__.tb_next` and a bare `raise`
(in earlier versions, a bare `raise` puts it back).
"""

import functools
import os
import threading

from .marker import marker

SOURCE = 1
NAME_BYTES = 64

_library = marker._library
_open, _live, _drive = marker._open, marker._live, marker._drive
get_ident = marker.get_ident


def encode(name):
    return name if type(name) is bytes else name.encode("utf-8", "replace")


def tell(text):
    """Reports on this source: `+starlette 0.47`, `!torch 9.9: why`."""
    text = encode(text)[:NAME_BYTES]
    _library.guestscope_tell(SOURCE, text, len(text))


def begin(name, number=0):
    """Opens a phase on this thread and returns its token."""
    name = encode(name)
    token = _library.guestscope_begin_from(SOURCE, name, len(name), number)
    chain = _open.get()
    if chain is not None:
        _live[token] = get_ident()
        _open.set(chain + (token,))
    return token


def end(token):
    chain = _open.get()
    if chain is not None:
        if chain and chain[-1] == token:
            _open.set(chain[:-1])
        else:
            _open.set(tuple(other for other in chain if other != token))
    _live.pop(token, None)
    _library.guestscope_end(token)


def replace(token, name=None, status=0):
    """Sets the final name and status of an open phase."""
    name = encode(name or b"")
    _library.guestscope_rename(token, name, len(name), status)


def label(thing):
    """A name for an object: that of its type."""
    return type(thing).__name__[:48]


class Phase:
    """`with Phase("name"):`, a new object for each use."""

    __slots__ = ("_name", "token")

    def __init__(self, name):
        self._name = name
        self.token = 0

    def __enter__(self):
        self.token = begin(self._name)
        return self

    def __exit__(self, *exception):
        end(self.token)
        return False


def _namer(original, name):
    """A function of (args, kwargs) that names a phase and does not raise."""
    if not callable(name):
        fixed = encode(name)
        return lambda args, kwargs: fixed
    instead = encode(getattr(original, "__name__", label(original)))

    def named(args, kwargs):
        try:
            return encode(name(args, kwargs))
        except Exception:
            return instead

    return named


def sync(original, name):
    """A phase around each call."""
    named = _namer(original, name)

    @functools.wraps(original)
    def wrapper(*args, **kwargs):
        token = begin(named(args, kwargs))
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            end(token)

    return wrapper


_inside = threading.local()


def outermost(original, name, key):
    """A phase around the outermost call on each thread, over all functions with this key."""
    named = _namer(original, name)

    @functools.wraps(original)
    def wrapper(*args, **kwargs):
        inside = _inside.__dict__
        token = 0
        if key not in inside:
            token = inside[key] = begin(named(args, kwargs))
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            if token:
                inside.pop(key, None)
                end(token)

    return wrapper


def inside(key):
    """The phase of `outermost` with this key that this thread is inside, 0 outside."""
    return _inside.__dict__.get(key, 0)


def beginner(name):
    """Called by `_drive` to begin."""
    name = encode(name)
    return functools.partial(_library.guestscope_begin_from, SOURCE, name, len(name), 0)


def coroutine(original, name):
    """A phase around each call of an async function; it is left at each suspension."""
    named = _namer(original, name)

    @functools.wraps(original)
    async def wrapper(*args, **kwargs):
        try:
            return await _drive(original(*args, **kwargs), beginner(named(args, kwargs)))
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise

    return wrapper


def generator(original, name):
    """A phase for each step of a generator function, from `next` to `yield`."""
    named = _namer(original, name)

    @functools.wraps(original)
    def wrapper(*args, **kwargs):
        steps = original(*args, **kwargs)
        phase = named(args, kwargs)
        advance = functools.partial(next, steps)
        while True:
            token = begin(phase)
            try:
                item = advance()
            except StopIteration as result:
                return result.value
            except BaseException as error:
                error.__traceback__ = error.__traceback__.tb_next
                raise
            finally:
                end(token)
            try:
                sent = yield item
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:
                error.__traceback__ = error.__traceback__.tb_next
                advance = functools.partial(steps.throw, error)
            else:
                advance = functools.partial(next, steps) if sent is None else functools.partial(steps.send, sent)

    return wrapper


def relaying(original, begun):
    """An async generator function that passes on what another generator yields and receives.

    `begun(args, kwargs)` gives that one, and what is awaited for each of its steps.
    """

    @functools.wraps(original)
    async def wrapper(*args, **kwargs):
        steps, driven = begun(args, kwargs)
        step = steps.__anext__()
        while True:
            try:
                item = await driven(step)
            except StopAsyncIteration:
                return
            except BaseException as error:
                error.__traceback__ = error.__traceback__.tb_next
                raise
            try:
                sent = yield item
            except GeneratorExit:
                await steps.aclose()
                raise
            except BaseException as error:
                error.__traceback__ = error.__traceback__.tb_next
                step = steps.athrow(error)
            else:
                step = steps.__anext__() if sent is None else steps.asend(sent)

    return wrapper


def asyncgen(original, name):
    """A phase for each step of an async generator function."""
    named = _namer(original, name)

    def begun(args, kwargs):
        steps = original(*args, **kwargs)
        phase = beginner(named(args, kwargs))
        return steps, lambda step: _drive(step, phase)

    return relaying(original, begun)


def routes_are_hidden():
    return os.environ.get("GUESTSCOPE_ROUTES") == "off"


def watch(rows):
    """Adds rows of (module, attribute, kind); modules that are there already get theirs at once."""
    from . import finder

    finder.watch(rows)


def request(name, number=0, scheduled_ns=0):
    """Begins a request on this thread; `finish()` ends it."""
    from . import requests

    return requests.Request(encode(name), number, scheduled_ns).start()


def hop(function):
    """The function for a call on another thread: inside the phases that are open here."""
    from . import hops

    return hops.hop(function)
