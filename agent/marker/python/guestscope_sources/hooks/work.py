"""What hooks of work (models, data, training) share beyond phases.py."""

import ctypes

from .. import phases
from ..marker import marker

_library = marker._library
_open, _live = marker._open, marker._live
# A null stream: nobody reads what is written there.
_header = ctypes.create_string_buffer(56)
_CHILD_BITS = 18
_NO_PARENT = bytes(8)
_told = set()


def failed(package, error):
    """Reports that a hook failed in a call, once for each kind."""
    tell_once("!%s: %s" % (package, type(error).__name__))


def tell_once(text):
    if text not in _told:
        _told.add(text)
        phases.tell(text)


def left_out(package, what):
    """Reports that more of something exists than is kept, once."""
    tell_once("!%s: %s" % (package, what))


def is_inside():
    """Whether this thread is inside a phase of any source, unless another copy of the library made it."""
    chain = _open.get()
    if chain and any(token in _live for token in chain):
        return True
    # Only the library knows of phases outside of coroutines. Outside of all phases the call returns none and
    # fires nothing.
    return _library.guestscope_traceparent(0, _header, len(_header)) != 0


def is_root(token):
    return token != 0 and token & ((1 << _CHILD_BITS) - 1) == 0


def join(root, trace):
    """The root joins a trace."""
    _library.guestscope_context(root, trace, _NO_PARENT)
