"""Runs hooks after a module's own code: a finder before all others, which asks those to find the module.

It must not change an import: a hook that raises is switched off and reported, and an import that fails does
so as without the finder.
"""

import sys
from _thread import get_ident

#: Loaders that exist once for each module, so that a method of one can be replaced for one import.
_OWN_LOADERS = ("SourceFileLoader", "SourcelessFileLoader", "ExtensionFileLoader")


class _Loader:
    """Stands in for a loader that serves many modules, until the module's code has run."""

    def __init__(self, loader, after):
        self._loader = loader
        self._after = after

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        create = getattr(self._loader, "create_module", None)
        return None if create is None else create(spec)

    def exec_module(self, module):
        module.__spec__.loader = self._loader
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = self._loader
        _run(self._loader.exec_module, module, self._after)


def _run(execute, module, after):
    try:
        execute(module)
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next
        raise
    after(module)


class Finder:
    """The finder. `rows` is by module name: (attribute, kind) pairs."""

    def __init__(self):
        self.rows = {}
        # Modules whose code was running when their rows were added.
        self.waiting = set()
        self._finding = set()

    def find_spec(self, name, path=None, target=None):
        if self.waiting:
            self._look_again()
        if name not in self.rows:
            return None
        key = (get_ident(), name)
        if key in self._finding:
            return None
        self._finding.add(key)
        try:
            for finder in list(sys.meta_path):
                find = None if finder is self else getattr(finder, "find_spec", None)
                spec = None if find is None else find(name, path, target)
                if spec is not None:
                    return self._dress(spec)
        finally:
            self._finding.discard(key)
        return None

    def _dress(self, spec):
        loader = spec.loader
        # A loader that another finder like this one has wrapped, or one with only the API of Python 3.3.
        if isinstance(loader, _Loader) or not hasattr(loader, "exec_module"):
            return spec
        if type(loader).__name__ not in _OWN_LOADERS or not hasattr(loader, "__dict__"):
            spec.loader = _Loader(loader, self.after)
            return spec

        def exec_module(module):
            loader.__dict__.pop("exec_module", None)
            try:
                _run(loader.exec_module, module, self.after)
            except BaseException as error:
                error.__traceback__ = error.__traceback__.tb_next
                raise

        loader.exec_module = exec_module
        return spec

    def after(self, module):
        """Called after the module's own code."""
        name = module.__name__
        try:
            from . import apply

            apply.rows(name, sys.modules.get(name, module), self.rows.get(name, ()))
        except Exception:
            # `apply` handles and reports errors of hooks; only an error in `apply` itself arrives here.
            self.rows.pop(name, None)

    def watch(self, rows):
        """Adds rows. Loaded modules get theirs now; modules whose code is running get them after it."""
        for name, attribute, kind in rows:
            known = self.rows.setdefault(name, [])
            if (attribute, kind) in known:
                continue
            known.append((attribute, kind))
            if name in sys.modules:
                self.waiting.add(name)
        self._look_again()

    def _look_again(self):
        for name in list(self.waiting):
            module = sys.modules.get(name)
            spec = getattr(module, "__spec__", None)
            if module is not None and getattr(spec, "_initializing", False):
                continue
            self.waiting.discard(name)
            if module is not None:
                self.after(module)


_finder = Finder()
watch = _finder.watch


def install(rows):
    if any(finder is _finder for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _finder)
    watch(rows)
