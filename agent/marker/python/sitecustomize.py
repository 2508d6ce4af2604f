"""Brings guestscope's automatic marks into a Python program that `guestscope run` starts, then runs the
program's own sitecustomize, which this file hides. A failure of the marks must not stop the program, so it is
ignored."""

import os
import sys


def _start():
    if not os.environ.get("GUESTSCOPE_PYTHON") and not os.environ.get("GUESTSCOPE_MARK"):
        return
    try:
        import guestscope_sources

        guestscope_sources.start(os.environ)
    except Exception:
        pass


def _own():
    here = os.path.dirname(os.path.abspath(__file__))
    paths = [path for path in sys.path if os.path.abspath(path) != here]
    find_spec = sys.modules["_frozen_importlib_external"].PathFinder.find_spec
    while True:
        spec = find_spec("sitecustomize", paths)
        folder = os.path.dirname(spec.origin or "") if spec is not None else ""
        if not folder or not os.path.isdir(os.path.join(folder, "guestscope_sources")):
            return spec
        # The copy of another agent that runs this one: it would look for this file in turn.
        paths = [path for path in paths if os.path.abspath(path) != os.path.abspath(folder)]


_start()
_spec = _own()
if _spec is None or _spec.loader is None:
    # The error of a program without a sitecustomize.
    raise ImportError("No module named 'sitecustomize'", name="sitecustomize")
_module = sys.modules["_frozen_importlib"].module_from_spec(_spec)
# The import that runs this file returns the module that is registered here at its end.
sys.modules["sitecustomize"] = _module
try:
    _spec.loader.exec_module(_module)
except BaseException as error:
    error.__traceback__ = error.__traceback__.tb_next
    raise
