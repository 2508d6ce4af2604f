"""scikit-learn: the outermost predict, transform, fit, ... of an estimator.

Each class has methods of its own, so they are wrapped as a class is made: those of scikit-learn and those of
the program alike. A batch that joblib runs on another thread or in another process is a phase `joblib` there.
"""

import functools
import sys

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


# Key of `phases.outermost`: a call inside one of these is part of it.
_KEY = "sklearn"


def _wrapped(method, name):
    call = phases.outermost(method, lambda args, kwargs: name + " " + phases.label(args[0]), _KEY)
    call.__guestscope__ = True
    return call


def _dress(cls):
    for name in _METHODS:
        method = cls.__dict__.get(name)
        if type(method) is type(_dress):
            if not hasattr(method, "__guestscope__"):
                setattr(cls, name, _wrapped(method, name))
        elif type(method).__name__ == "_AvailableIfDescriptor" and not hasattr(method.fn, "__guestscope__"):
            # The program asks first whether the method exists.
            method.fn = _wrapped(method.fn, name)


def estimators(module):
    """sklearn.base: every estimator class that is made from now on."""
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
    marked = phases.outermost(original, "joblib", _KEY)

    def __call__(self, *args, **kwargs):
        try:
            return (marked if "sklearn" in sys.modules else original)(self, *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise

    return functools.wraps(original)(__call__)
