"""transformers: `generate` with `prefill` (the first call of the model) and `decode` (each further one) in
it, and the Trainer's step."""

import functools
import threading

from .. import phases
from . import loop, torch, work


class _Here(threading.local):
    depth = 0


_here = _Here()


def _namer(model, around):
    is_first = [True]

    def name(module):
        # Encoders, and the model that drafts for this one, are separate modules.
        if module is not model and getattr(module, "_orig_mod", None) is not model:
            return around(module) if around is not None else None
        if is_first[0]:
            is_first[0] = False
            return "prefill"
        return "decode"

    return name


def generate(original, site):
    def generate(self, *args, **kwargs):
        outer = loop.here.namer
        token = 0
        try:
            token = phases.begin("generate" if _here.depth == 0 else "generate " + torch.label(self))
            loop.here.namer = _namer(self, outer)
        except Exception as error:
            work.failed("transformers", error)
        _here.depth += 1
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            _here.depth -= 1
            loop.here.namer = outer
            if token:
                phases.end(token)

    return functools.wraps(original)(generate)


def training_step(original, site):
    """Trainer takes batches ahead, so the last step begins here."""
    marked = phases.outermost(original, "training step", "training")

    @functools.wraps(original)
    def training_step(*args, **kwargs):
        try:
            loop.learns()
        except Exception as error:
            work.failed("transformers", error)
        try:
            return marked(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise

    return training_step
