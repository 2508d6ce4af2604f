"""Lightning: its steps, around the forward and backward of torch."""

from .. import phases


def step(original, site):
    # training_step, validation_step, ...
    return phases.outermost(original, site.name.replace("_", " "), "training")
