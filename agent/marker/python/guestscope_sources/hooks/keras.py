"""Keras on any of its backends: the outermost fit, evaluate and predict, with a phase for each batch in it.

A batch lies between the two calls of its callbacks. If it raises, or the data had ended, it ends with the
phase around it.
"""

import functools
import threading

from .. import phases
from . import work


class _Here(threading.local):
    inside = False
    batch = 0


_here = _Here()


def _end_batch():
    batch, _here.batch = _here.batch, 0
    if batch:
        phases.end(batch)


def outer(original, site):
    @functools.wraps(original)
    def method(self, *args, **kwargs):
        if _here.inside:
            # An evaluation inside a fit has batches of its own inside it, and ends no batch of the fit.
            try:
                return original(self, *args, **kwargs)
            except BaseException as error:
                error.__traceback__ = error.__traceback__.tb_next
                raise
        _here.inside = True
        token = 0
        try:
            token = phases.begin(site.name + " " + phases.label(self))
        except Exception as error:
            work.failed("keras", error)
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            _here.inside = False
            _end_batch()
            if token:
                phases.end(token)

    return method


def begin(original, site):
    """`on_train_batch_begin`: what the program's callbacks do there is part of the batch."""
    name = site.name.split("_")[1] + " step"

    @functools.wraps(original)
    def on_batch_begin(self, *args, **kwargs):
        _end_batch()
        if _here.inside:
            _here.batch = phases.begin(name)
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise

    return on_batch_begin


def end(original, site):
    @functools.wraps(original)
    def on_batch_end(self, *args, **kwargs):
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            _end_batch()

    return on_batch_end
