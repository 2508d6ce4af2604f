"""torch's DataLoader: `data` where a batch is waited for, `load` in the worker process that makes it.

Both have the number of the batch, from 1 in each epoch. If each is a root, or inside a training step of ours,
they share a trace, whose id follows from values that the worker has as well (the loading process, the
loader's seed, epoch and batch).
"""

import functools
import hashlib
import os
import sys
import weakref

from .. import phases
from . import loop, work

# By iterator: how often it was reset. In a worker: its fetcher, and the worker's number.
_epochs = weakref.WeakKeyDictionary()
_fetchers = [None, 0]


def _trace(parent, seed, epoch, number):
    text = "guestscope %d %d %d %d" % (parent, seed, epoch, number)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def data(original, site):
    state = loop.here

    def __next__(self):
        if state.data:
            return original(self)
        state.data = True
        token = 0
        try:
            loop.data(self)
            number = _number(self)
            token = phases.begin("data", number)
            _join(self, token, number)
        except Exception as error:
            work.failed("torch", error)
        is_over = False
        try:
            return original(self)
        except BaseException as error:
            is_over = isinstance(error, StopIteration)
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            state.data = False
            if token:
                phases.end(token)
            if is_over:
                loop.exhausted(self)

    return functools.wraps(original)(__next__)


def _number(iterator):
    """Number of the next batch: workers deliver in order; without workers, the number yielded so far."""
    received = getattr(iterator, "_rcvd_idx", None)
    return (iterator._num_yielded if received is None else received) + 1


def _join(iterator, token, number):
    if getattr(iterator, "_num_workers", 0) == 0:
        return
    root = loop.here.token or (token if work.is_root(token) else 0)
    # A step that takes several batches joins the trace of the first.
    if root and not loop.here.joined:
        loop.here.joined = bool(loop.here.token)
        trace = _trace(os.getpid(), iterator._base_seed, _epochs.get(iterator, 0), number)
        work.join(root, trace)


def reset(original, site):
    """`_MultiProcessingDataLoaderIter._reset`: an epoch begins. Persistent workers count from 1 again."""

    def _reset(self, *args, **kwargs):
        _epochs[self] = _epochs.get(self, 0) + 1
        return original(self, *args, **kwargs)

    return functools.wraps(original)(_reset)


def fetch(original, site):
    """Makes a batch. In the process that asks for it this is part of `data`."""

    def fetch(self, *args, **kwargs):
        token = 0
        try:
            token = _load(self)
        except Exception as error:
            work.failed("torch", error)
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            if token:
                phases.end(token)

    return functools.wraps(original)(fetch)


def _load(fetcher):
    worker = sys.modules.get("torch.utils.data._utils.worker")
    info = worker.get_worker_info() if worker is not None else None
    if info is None:
        return 0
    if _fetchers[0] is not fetcher:
        _fetchers[:] = fetcher, _fetchers[1] + 1
    # A worker's loop keeps the number of the batch in a local variable.
    number = sys._getframe(2).f_locals.get("idx", -1) + 1
    token = phases.begin("load", number)
    if number and work.is_root(token):
        work.join(token, _trace(os.getppid(), info.seed - info.id, _fetchers[1], number))
    return token
