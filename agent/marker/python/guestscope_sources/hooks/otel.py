"""The program's own OpenTelemetry spans as phases (source otel), each a child of its span.

A span is charged the time of the thread on which it is current, from `attach` of a context with it to
`detach`. A span that was never made current has a duration and no thread's time. So do spans in a coroutine
that we do not drive (the program's own task, outside of requests): its suspensions are unknown, and the time
of others must not be charged to it.

Spans may end on another thread than they began on, and out of order: phases above one on its thread are left
before its end and entered again after it. A span that another thread ends while it is current here ends with
the next span of this thread.
"""

import ctypes
import functools
import os
import sys
import threading
from _thread import get_ident

from .. import phases, requests
from ..marker import marker
from . import work

SOURCE = 2
# Limit of open spans: those that never end cost the program memory.
MOST = 10_000
# Frames from `_started` to the caller of `start_span`: `on_start`, the processors' list, `Span.start`,
# `start_span`.
_FRAMES = 5

_library = marker._library


def _parent_of():
    try:
        parent = _library.guestscope_parent
    except AttributeError:
        # An older library: phases are not below the program's spans.
        return lambda *_: None
    if hasattr(parent, "argtypes"):
        parent.restype, parent.argtypes = None, [ctypes.c_uint64, ctypes.c_char_p, ctypes.c_char_p]
    return parent


_parent = _parent_of()
_open, _live = marker._open, marker._live
# Open spans by span id; those that an `attach` brought onto a thread by the id of the token, which cannot be
# hashed.
_spans = {}
_attached = {}
# Functions that start a span, make it current and end it, with nothing in between.
_direct_code = None
_current_span = None


class _Span:
    """The phase of a span. `thread`: the thread that it is on, 0 for none. `tracked`: it is left and entered
    with the coroutine. `is_gone`: it ended with the coroutine in which it was open, or with the answer to the
    request."""

    __slots__ = ("token", "span", "name", "thread", "tracked", "is_direct", "by", "is_over", "is_gone")


class _Here(threading.local):
    """The untracked spans on this thread, outermost first."""

    def __init__(self):
        self.inside = []


_here = _Here()


def _name(span):
    name = span.name
    if phases.routes_are_hidden() and "/" in name:
        name = name.partition("/")[0].rstrip() or "span"
    return phases.encode(name)


def _is_undriven():
    """Whether other coroutines or greenlets may take turns with this one."""
    asyncio = sys.modules.get("asyncio.events")
    if asyncio is not None and asyncio._get_running_loop() is not None:
        return True
    trio = sys.modules.get("trio._core._run")
    if trio is not None and hasattr(getattr(trio, "GLOBAL_RUN_CONTEXT", None), "runner"):
        return True
    greenlet = sys.modules.get("greenlet")
    return greenlet is not None and greenlet.getcurrent().parent is not None


def _give_way():
    loop = sys.modules.get(__package__ + ".loop")
    if loop is not None and not loop._yielded:
        loop.give_way()


def _may_stay():
    return bool(_open.get()) or not _is_undriven()


def _put(span):
    """The span's phase is on this thread from now on, and stays there."""
    chain = _open.get()
    span.thread = get_ident()
    span.tracked = bool(chain)
    if chain:
        _live[span.token] = span.thread
        _open.set(chain + (span.token,))
        requests.spans[span.token] = lambda: _renamed(span)
    else:
        _here.inside.append(span)


def _take(span):
    """Takes the span off this thread. False if it was not there."""
    thread, span.thread = span.thread, 0
    if span.tracked:
        thread = _live.pop(span.token, None)
        span.is_gone |= thread is None
        _open.set(tuple(token for token in _open.get() or () if token != span.token))
    elif thread == get_ident() and span in _here.inside:
        _here.inside.remove(span)
    return thread == get_ident()


def _started(span):
    if len(_spans) >= MOST:
        work.left_out("opentelemetry", "more than %d open spans" % MOST)
        return
    _give_way()
    _end_overdue()
    context, mine = span.context, _Span()
    mine.span, mine.name = span, _name(span)
    mine.thread, mine.tracked, mine.by, mine.is_over, mine.is_gone = 0, False, None, False, False
    caller = sys._getframe(_FRAMES)
    mine.is_direct = caller.f_code is _direct_code and bool(caller.f_locals.get("end_on_exit")) and _may_stay()
    mine.token = _library.guestscope_begin_from(SOURCE, mine.name, len(mine.name), 0)
    if context.trace_flags.sampled:
        _parent(mine.token, context.trace_id.to_bytes(16, "big"), context.span_id.to_bytes(8, "big"))
    if mine.is_direct:
        _put(mine)
    else:
        _library.guestscope_leave(mine.token)
    _spans[context.span_id] = mine


def _above(span):
    """Tokens of the phases on this thread inside the span, outermost first."""
    if not span.tracked:
        inside = _here.inside
        return [other.token for other in inside[inside.index(span) + 1 :]]
    chain, thread = _open.get() or (), get_ident()
    if span.token not in chain:
        return []
    return [token for token in chain[chain.index(span.token) + 1 :] if _live.get(token) == thread]


def _renamed(mine):
    """The program may have renamed the span since."""
    try:
        name = _name(mine.span)
        if name != mine.name:
            mine.name = name
            phases.replace(mine.token, name)
    except Exception as error:
        work.failed("opentelemetry", error)


def _ended(span):
    mine = _spans.pop(span.context.span_id, None)
    if mine is None:
        return
    _attached.pop(id(mine.by), None)
    requests.spans.pop(mine.token, None)
    mine.is_gone |= bool(mine.thread) and mine.tracked and mine.token not in _live
    if mine.is_gone:
        return
    _renamed(mine)
    if mine.thread and not mine.tracked and mine.thread != get_ident():
        mine.is_over = True
    elif not mine.thread or mine.tracked or mine in _here.inside:
        _end(mine)


def _end(span):
    above = []
    if not span.thread:
        _library.guestscope_enter(span.token)
    elif span.tracked and _live[span.token] != get_ident():
        _take(span)
        _library.guestscope_enter(span.token)
    else:
        above = _above(span)
        _take(span)
    for token in reversed(above):
        _library.guestscope_leave(token)
    _library.guestscope_end(span.token)
    for token in above:
        _library.guestscope_enter(token)


def _end_overdue():
    """Removes spans of this thread that others have ended."""
    inside = _here.inside
    if inside and any(span.is_over for span in inside):
        for span in [span for span in reversed(inside) if span.is_over]:
            _end(span)


def _attach(token, context):
    _end_overdue()
    mine = _spans.get(_current_span(context).get_span_context().span_id)
    if mine is None or mine.is_gone or mine.is_direct or mine.thread or mine.by is not None or not _may_stay():
        return
    _give_way()
    _library.guestscope_enter(mine.token)
    _put(mine)
    mine.by = token
    _attached[id(token)] = mine


def _detached(token):
    mine = _attached.pop(id(token), None)
    if mine is not None:
        mine.by = None
        if _take(mine):
            _library.guestscope_leave(mine.token)
    _end_overdue()


def attach(original, site):
    """A context becomes the thread's: its span is on the thread from now on."""

    @functools.wraps(original)
    def attach(self, context):
        token = original(self, context)
        if _spans:
            try:
                _attach(token, context)
            except Exception as error:
                work.failed("opentelemetry", error)
        return token

    return attach


def detach(original, site):
    @functools.wraps(original)
    def detach(self, token):
        if _attached or _here.inside:
            try:
                _detached(token)
            except Exception as error:
                work.failed("opentelemetry", error)
        return original(self, token)

    return detach


def provider(original, site):
    """`TracerProvider.__init__`: adds a processor to the provider."""
    global _direct_code, _current_span
    sdk = site.module
    _current_span = sdk.trace_api.get_current_span
    _direct_code = getattr(sdk.Tracer.start_as_current_span, "__wrapped__", original).__code__

    class Phases(sdk.SpanProcessor):
        """Makes phases of spans."""

        def on_start(self, span, parent_context=None):
            try:
                _started(span)
            except Exception as error:
                work.failed("opentelemetry", error)

        def on_end(self, span):
            try:
                _ended(span)
            except Exception as error:
                work.failed("opentelemetry", error)

    @functools.wraps(original)
    def __init__(self, *args, **kwargs):
        original(self, *args, **kwargs)
        try:
            if "Concurrent" in type(self._active_span_processor).__name__:
                phases.tell("!opentelemetry: processors run on other threads")
            else:
                self.add_span_processor(Phases())
        except Exception as error:
            work.failed("opentelemetry", error)

    return __init__


def _forked():
    _spans.clear()
    _attached.clear()
    requests.spans.clear()
    _here.inside.clear()


os.register_at_fork(after_in_child=_forked)
