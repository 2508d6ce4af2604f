"""Wraps the attributes in a module's rows, and reports the result."""

import functools
import sys

from . import phases

#: By module and attribute: the value since a hook ran.
_done = {}
#: Reports already made, so that a reloaded module is not reported again.
_told = set()
_LONGEST_REASON = 60
#: Wrapped so that requests can be followed: no source of their own, and reported only if that fails.
_QUIET = ("pools", "start", "collector")


class Site:
    """The place of a row's attribute: `owner` (module or class) has `name`."""

    def __init__(self, module, attribute):
        self.module, self.attribute = module, attribute
        self.owner = module
        *path, self.name = attribute.split(".")
        for part in path:
            self.owner = getattr(self.owner, part)

    def raw(self):
        """The value in the owner itself, or in a class that it inherits from."""
        for owner in getattr(self.owner, "__mro__", (self.owner,)):
            if self.name in vars(owner):
                return vars(owner)[self.name]
        return getattr(self.owner, self.name)


def rows(name, module, pairs):
    """Applies the rows of one module. Raises nothing."""
    if not phases.marker.available:
        return
    failed = None
    worked = False
    # No module's import tells of the garbage collector, which every program has.
    for attribute, kind in [("*?", "collector.watch"), *pairs]:
        may_be_missing = attribute.endswith("?")
        attribute = attribute.rstrip("?")
        try:
            _row(module, attribute, kind)
            worked |= kind.partition(".")[0] not in _QUIET
        except AttributeError:
            if not may_be_missing:
                failed = failed or "no " + attribute
        except Exception as error:
            failed = failed or "%s: %s" % (attribute, type(error).__name__)
    if failed:
        _tell("!%s: %s" % (_version(name), failed[:_LONGEST_REASON]))
    elif worked:
        _tell("+" + _version(name))


def _row(module, attribute, kind):
    file, function = kind.split(".")
    hooks = __import__("guestscope_sources.hooks." + file, fromlist=[function])
    make = getattr(hooks, function)
    if attribute == "*":
        return make(module)
    site = Site(module, attribute)
    raw = site.raw()
    if _done.get((module.__name__, attribute)) is raw:
        return None
    inner = raw.__func__ if isinstance(raw, (staticmethod, classmethod)) else raw
    made = make(inner, site)
    if made is None or made is inner:
        return None
    if made is not inner and not hasattr(made, "__wrapped__"):
        made = functools.wraps(inner)(made)
    made = type(raw)(made) if isinstance(raw, (staticmethod, classmethod)) else made
    setattr(site.owner, site.name, made)
    _done[(module.__name__, attribute)] = made
    return None


def undo(module, attribute):
    """Restores the original value, if the current one is still ours."""
    made = _done.pop((module, attribute), None)
    there = sys.modules.get(module)
    if made is None or there is None:
        return
    site = Site(there, attribute)
    if site.raw() is made:
        setattr(site.owner, site.name, made.__wrapped__)


def is_done(module, attribute):
    return (module, attribute) in _done


def _version(name):
    """`torch 2.11`, from the package's own variable, without a lookup."""
    package = name.partition(".")[0]
    version = vars(sys.modules.get(package, sys)).get("__version__") if package in sys.modules else None
    return "%s %s" % (package, version[:20]) if isinstance(version, str) else package


def _tell(text):
    if text not in _told:
        _told.add(text)
        phases.tell(text)
