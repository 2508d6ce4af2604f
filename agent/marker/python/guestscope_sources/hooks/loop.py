"""Training loops of torch: one root `step` from the end of one optimizer step to the end of the next.

Work between two steps (reading the loss, logging, saving) is part of the following step. If a DataLoader's
iterator provides the batches, that step is open from the end of the one before, without a gap; when the
iterator is exhausted or deleted, it ends as `after the last batch`. In other loops it is unknown whether
another step follows, so a step begins with its first forward. A loop over a DataLoader that never calls an
optimizer has roots `batch`.

An open step spans several calls, so it must not begin or end inside another phase: a thread inside a request
has no steps, nor has a program that marks phases itself (`give_way`).
"""

import atexit
import os
import sys
import threading
import weakref
from _thread import get_ident

from .. import phases
from . import work

STEP, BATCH, AFTER = "step", "batch", "after the last batch"
UNFINISHED, AFTER_STEP = "unfinished step", "after the last step"
#: Most batches that are taken before a forward: some loops take one ahead.
_AHEAD = 2


class Here(threading.local):
    """A thread's loop, and the open phases by kind of call."""

    forward = False
    backward = False
    step = False
    data = False
    #: Names the outermost module call; None: the name of its class.
    namer = None
    #: Token of the open step or batch; 0: none.
    token = 0
    number = 0
    #: A weak reference to the iterator that provides its batches.
    feeder = None
    #: Since the last step: a batch, a forward, a backward has been seen.
    fed = 0
    worked = False
    learned = False
    #: The step has joined the trace of a batch.
    joined = False
    #: An optimizer has stepped on this thread.
    trains = False


here = Here()
#: The program or another hook marks this process.
_yielded = False


def _open():
    if _yielded or work.is_inside():
        return
    here.number += 1
    here.token = phases.begin(STEP, here.number)


def _close(name=None):
    token, here.token = here.token, 0
    here.worked = here.learned = here.joined = False
    here.fed = 0
    if token:
        if name is not None:
            phases.replace(token, name)
        phases.end(token)


def _is_unused():
    return not here.fed and not here.worked


def _final_name():
    """Ends a loop that ended without an optimizer's step."""
    if here.learned:
        return UNFINISHED
    if here.fed and here.worked:
        return BATCH
    return AFTER if here.fed or not here.worked else AFTER_STEP


def give_way():
    """Somebody else marks phases from here on: phases nest, so what is open here ends before. Steps of other
    threads end at their next event."""
    global _yielded
    _yielded = True
    if here.token:
        _close(_final_name())


def _gone(thread):
    def gone(reference):
        if get_ident() == thread and here.feeder is reference:
            here.feeder = None
            if here.token:
                _close(_final_name())

    return gone


def data(iterator):
    """The program asks a DataLoader's iterator for the next batch."""
    is_same = here.feeder is not None and here.feeder() is iterator
    if here.token:
        if is_same and not here.learned and (here.worked or here.fed >= _AHEAD):
            _close(BATCH)
        elif (not is_same and _is_unused()) or _yielded:
            # The step was opened after the last one, and now another loop begins.
            _close(AFTER)
    if not here.token:
        _open()
    here.fed += 1
    if not is_same:
        here.feeder = weakref.ref(iterator, _gone(get_ident()))


def exhausted(iterator):
    """The iterator has no further batch."""
    if here.feeder is not None and here.feeder() is iterator:
        here.feeder = None
        # Asking for a further batch is not a batch.
        here.fed -= 1
        if here.token and not here.learned:
            _close(_final_name())


def _learns():
    torch = sys.modules.get("torch")
    return torch is None or not hasattr(torch, "is_grad_enabled") or torch.is_grad_enabled()


def forward(module):
    """An outermost module call begins."""
    if here.token:
        here.worked = True
    elif here.trains and module.training and _learns():
        _open()
        here.worked = True


def learns():
    """A step begins, whatever provides its data."""
    if not here.token and here.trains:
        _open()


def backward():
    here.learned = True


def stepped():
    """An optimizer's outermost step has ended."""
    here.trains = True
    _close()
    if here.feeder is not None and here.feeder() is not None:
        _open()


def marked_elsewhere(original, site):
    """A function by which the program marks phases itself."""
    import functools

    @functools.wraps(original)
    def marks(*args, **kwargs):
        if not _yielded:
            give_way()
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise

    return marks


def _watch_marks():
    """The first phase that the program marks with the library's own calls."""
    library = work._library

    def once(name, call):
        def first(*arguments):
            library.__dict__[name] = call
            give_way()
            return call(*arguments)

        return first

    for name in ("guestscope_begin", "guestscope_request"):
        setattr(library, name, once(name, getattr(library, name)))


def _forked():
    here.__dict__.clear()


def _leaving():
    if here.token:
        _close(_final_name())


_watch_marks()
os.register_at_fork(after_in_child=_forked)
atexit.register(_leaving)
