"""torch: forward, backward and optimizer steps, waits for CUDA, modules that move. DataLoader is in
torch_data.py.

A module call inside another one costs a look at a thread-local and a call; torch's own global hooks would
switch off the fast path of every module. torch.compile sees through: while it traces, a wrapper is the
original, and the frame of a module call is skipped as torch's own is.
"""

import functools

from .. import phases
from . import loop, work

# Modules that only wrap another one, with the attribute that holds it.
_AROUND = {
    "OptimizedModule": "_orig_mod",
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "FullyShardedDataParallel": "module",
}
_SCRIPTED = ("RecursiveScriptModule", "TopLevelTracedModule", "TracedModule")

# Nothing traces before torch._dynamo is imported; `dynamo` puts torch's function here, which tracing reads as
# True. (`bool()` is the cheapest call that gives False.)
is_compiling = bool
# Code objects of wrappers that torch.compile must skip.
_seen_through = []


def label(module):
    """The name of a module's class, without modules that only wrap it."""
    for _ in range(4):
        inner = _AROUND.get(type(module).__name__)
        inside = module.__dict__.get("_modules") or {}
        if inner is None or inside.get(inner) is None:
            break
        module = inside[inner]
    if type(module).__name__ in _SCRIPTED:
        return str(module.original_name)[:48]
    return phases.label(module)


def _begin(module):
    try:
        loop.forward(module)
        namer = loop.here.namer
        name = namer(module) if namer is not None else None
        return phases.begin(name or "forward " + label(module))
    except Exception as error:
        work.failed("torch", error)
        return 0


def module(original, site):
    state, begin, end = loop.here, _begin, phases.end

    def __call__(self, *args, **kwargs):
        if is_compiling() or state.forward:
            try:
                return original(self, *args, **kwargs)
            except BaseException as error:
                error.__traceback__ = error.__traceback__.tb_next
                raise
        state.forward = True
        token = begin(self)
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            state.forward = False
            if token:
                end(token)

    wrapped = functools.wraps(original)(__call__)
    _seen_through.append(wrapped.__code__)
    return wrapped


def _once(original, kind, name, before=None, after=None):
    """The outermost call of its kind on a thread is a phase."""
    state, begin, end = loop.here, phases.begin, phases.end

    def call(*args, **kwargs):
        if is_compiling() or getattr(state, kind):
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                error.__traceback__ = error.__traceback__.tb_next
                raise
        setattr(state, kind, True)
        token = 0
        try:
            if before is not None:
                before()
            token = begin(name(args) if callable(name) else name)
        except Exception as error:
            work.failed("torch", error)
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            setattr(state, kind, False)
            if token:
                end(token)
            if after is not None:
                after()

    wrapped = functools.wraps(original)(call)
    _seen_through.append(wrapped.__code__)
    return wrapped


def backward(original, site):
    return _once(original, "backward", "backward", before=loop.backward)


def optimizer(original, site):
    """`Optimizer.profile_hook_step`: torch's own wrapper of the step of each optimizer class."""

    def profile_hook_step(function):
        def name(args):
            return "optimizer " + phases.label(args[0])

        return _once(original(function), "step", name, after=loop.stepped)

    return functools.wraps(original)(profile_hook_step)


def move(original, site):
    """`Module.to`, `.cuda`, `.cpu`. Those of tensors are called too often; waits for CUDA are phases."""

    def name(args, kwargs):
        return site.name + " " + label(args[0])

    return phases.outermost(original, name, "torch.move")


def synchronize(original, site):
    return phases.outermost(original, "synchronize", "torch.synchronize")


def dynamo(module):
    """torch._dynamo.eval_frame was imported: from now on code may be traced."""
    global is_compiling
    import torch

    compiler = torch.compiler
    # The first test is False outside of tracing, and cheaper.
    is_compiling = getattr(compiler, "is_dynamo_compiling", None) or compiler.is_compiling
    for code in _seen_through:
        module.skip_code(code)
