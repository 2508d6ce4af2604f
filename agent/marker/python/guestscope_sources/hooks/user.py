"""Functions of `--mark module:function`: a phase around each call, by the function's kind."""

import inspect

from .. import phases


def function(original, site):
    name = site.attribute
    if inspect.iscoroutinefunction(original):
        return phases.coroutine(original, name)
    if inspect.isasyncgenfunction(original):
        return phases.asyncgen(original, name)
    if inspect.isgeneratorfunction(original):
        return phases.generator(original, name)
    if inspect.isclass(original) or not callable(original):
        raise TypeError("not a function")
    return phases.sync(original, name)
