"""Steps of vLLM's and SGLang's engines. A step serves many requests and belongs to none. See also vllm.py."""

from .. import phases


def _of_mode(args, kwargs):
    """Names a phase by the mode of SGLang's batch."""
    mode = (args[1] if len(args) > 1 else kwargs["batch"]).forward_mode
    for name, is_it in (("prefill and decode", "is_mixed"), ("decode", "is_decode"), ("prefill", "is_extend")):
        if getattr(mode, is_it)():
            return name
    return "no tokens"


def step(original, site):
    return phases.outermost(original, "engine step", "engine")


def output(original, site):
    return phases.sync(original, "output")


def run_batch(original, site):
    return phases.sync(original, _of_mode)
