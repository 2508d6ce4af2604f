"""The garbage collector: a phase `garbage collection` for each full collection inside another phase.

Collections of younger objects are left out: there may be thousands in a second, and each is short.
"""

import gc
import sys

from .. import phases
from . import work

_FULL = 2


class _Collections:
    """Called by the interpreter before and after each collection, of which one runs at a time."""

    def __init__(self):
        self._token = 0

    def __call__(self, moment, info):
        try:
            # The last collections, as the interpreter ends, may not come back to tell of their end.
            is_full = info.get("generation") == _FULL and not sys.is_finalizing()
            if moment == "start" and is_full and work.is_inside():
                self._token = phases.begin("garbage collection")
            elif moment == "stop" and self._token:
                token, self._token = self._token, 0
                phases.end(token)
        except Exception:
            # The interpreter would print it in the middle of the program's own output.
            gc.callbacks.remove(self)


_collections = _Collections()


def watch(module):
    """Applied to the first module that can mark anything."""
    if _collections not in gc.callbacks:
        gc.callbacks.append(_collections)
