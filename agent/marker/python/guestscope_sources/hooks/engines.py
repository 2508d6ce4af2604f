"""Steps of the engines of vLLM and SGLang, in the process that has the model. A step serves many requests, and is none's."""

from .. import phases


def _of_tokens(args, kwargs):
    """By what vLLM's scheduler gave each request: one token continues it, more are of its prompt."""
    scheduled = args[1] if len(args) > 1 else kwargs["scheduler_output"]
    counts = scheduled.num_scheduled_tokens.values()
    if not counts:
        return "no tokens"
    has_prompts = bool(scheduled.scheduled_new_reqs) or max(counts) > 1
    if has_prompts and min(counts) == 1 and len(counts) > len(scheduled.scheduled_new_reqs):
        return "prefill and decode"
    return "prefill" if has_prompts else "decode"


def _of_mode(args, kwargs):
    """By the mode of SGLang's batch."""
    mode = (args[1] if len(args) > 1 else kwargs["batch"]).forward_mode
    for name, is_it in (("prefill and decode", "is_mixed"), ("decode", "is_decode"), ("prefill", "is_extend")):
        if getattr(mode, is_it)():
            return name
    return "no tokens"


def step(original, site):
    return phases.outermost(original, "engine step", "engine")


def schedule(original, site):
    return phases.sync(original, "schedule")


def output(original, site):
    return phases.sync(original, "output")


def sample(original, site):
    return phases.sync(original, "sample")


def execute(original, site):
    return phases.sync(original, _of_tokens)


def run_batch(original, site):
    return phases.sync(original, _of_mode)
