"""Greenlets (gevent, eventlet) take turns on one thread: what each has open is left and entered as they switch.

Done by greenlet's own trace function of each thread, which is asked for when a request begins in a greenlet that is not the
thread's first. One that was there is called as before.
"""

import sys

from .marker import marker

_open = marker._open
_threads = set()


def follow():
    """From now on greenlets of this thread are followed, if it has any."""
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
    """The thread's first greenlet stands for it: gevent replaces what tells threads apart."""
    first = greenlet.getcurrent()
    while first.parent is not None:
        first = first.parent
    return id(first)
