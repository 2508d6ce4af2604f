"""scikit-learn: the outermost predict, transform, fit, ... of an estimator.

Each class has methods of its own, so they are wrapped as a class is made: those of scikit-learn and those of the
program alike. A batch that joblib runs on another thread or in another process is a phase `joblib` there.
"""

import functools
import sys
import threading

from .. import phases
from . import work

_METHODS = (
    "fit",
    "partial_fit",
    "fit_predict",
    "fit_transform",
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "score_samples",
    "transform",
    "inverse_transform",
)


class _Here(threading.local):
    depth = 0


_here = _Here()


def _wrapped(method, name):
    state, begin, end = _here, phases.begin, phases.end

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        if state.depth:
            try:
                return method(self, *args, **kwargs)
            except BaseException as error:
                error.__traceback__ = error.__traceback__.tb_next
                raise
        state.depth = 1
        token = 0
        try:
            token = begin(name + " " + phases.label(self))
        except Exception as error:
            work.failed("sklearn", error)
        try:
            return method(self, *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            state.depth = 0
            if token:
                end(token)

    call.__guestscope__ = True
    return call


def _dress(cls):
    for name in _METHODS:
        method = cls.__dict__.get(name)
        if type(method) is type(_dress):
            if not hasattr(method, "__guestscope__"):
                setattr(cls, name, _wrapped(method, name))
        elif type(method).__name__ == "_AvailableIfDescriptor" and not hasattr(method.fn, "__guestscope__"):
            # It asks first whether the method is there.
            method.fn = _wrapped(method.fn, name)


def estimators(module):
    """sklearn.base: every class of estimators that is made from now on."""
    base = module.BaseEstimator

    def __init_subclass__(cls, **kwargs):
        super(base, cls).__init_subclass__(**kwargs)
        try:
            _dress(cls)
        except Exception as error:
            work.failed("sklearn", error)

    if "__init_subclass__" in base.__dict__:
        raise TypeError("BaseEstimator has __init_subclass__")
    base.__init_subclass__ = classmethod(__init_subclass__)
    for mixin in ("TransformerMixin", "ClusterMixin", "OutlierMixin"):
        if hasattr(module, mixin):
            _dress(getattr(module, mixin))


def batch(original, site):
    """`joblib.parallel.BatchedCalls.__call__`, on the thread that runs it."""

    def __call__(self, *args, **kwargs):
        if _here.depth or "sklearn" not in sys.modules:
            return original(self, *args, **kwargs)
        _here.depth = 1
        token = phases.begin("joblib")
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            _here.depth = 0
            phases.end(token)

    return functools.wraps(original)(__call__)
