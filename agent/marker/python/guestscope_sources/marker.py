"""The marker module that belongs to these files, whatever module of that name the program has."""

import importlib.util
import os


def _ours():
    try:
        import guestscope

        if hasattr(guestscope, "_live"):
            return guestscope
    except Exception:
        pass
    # The program has an older copy: its phases nest, but do not follow the coroutines of this one.
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "guestscope.py")
    spec = importlib.util.spec_from_file_location("guestscope_sources.guestscope", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


marker = _ours()
