"""Greenlets (gevent, eventlet) take turns on a thread; a switch leaves one's phases and enters the next's.

This uses greenlet's trace function of a thread, which is set when a request begins in a greenlet that is not
the thread's first. A trace function that was set before is still called.
"""

import sys

from .marker import marker

_open = marker._open
_threads = set()


def follow():
    """Follows the greenlets of this thread from now on, if there are any."""
    greenlet = sys.modules.get("greenlet")
    if greenlet is None:
        return
    thread = _real_thread(greenlet)
    if thread in _threads or greenlet.getcurrent().parent is None:
        return
    _threads.add(thread)
    before = greenlet.gettrace()

    def switched(event, arguments):
        if event in ("switch", "throw"):
            origin, target = arguments
            try:
                context = origin.gr_context
                left = context.get(_open) if context is not None else None
                if left:
                    marker._leave(left)
                entered = _open.get()
                if entered:
                    marker._enter(entered)
            except Exception:
                pass
        if before is not None:
            before(event, arguments)

    greenlet.settrace(switched)


def _real_thread(greenlet):
    """The thread's first greenlet identifies the thread: gevent replaces the functions that would."""
    first = greenlet.getcurrent()
    while first.parent is not None:
        first = first.parent
    return id(first)
