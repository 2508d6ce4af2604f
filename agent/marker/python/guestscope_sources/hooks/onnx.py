"""ONNX Runtime: a phase `run MODEL` for each inference. For `run_async` it covers only the call, not the work
that ONNX Runtime's own threads do afterwards."""

import os

from .. import phases


def _model(session):
    """The model's file without its folder, or its graph's name."""
    path = getattr(session, "_model_path", None)
    if isinstance(path, str):
        return os.path.basename(path)[:48]
    return str(getattr(session._model_meta, "graph_name", ""))[:48]


def run(original, site):
    def name(args, kwargs):
        return ("run " + _model(args[0])).rstrip()

    return phases.outermost(original, name, "onnxruntime")


def run_async(original, site):
    def name(args, kwargs):
        return ("submit " + _model(args[0])).rstrip()

    return phases.outermost(original, name, "onnxruntime")
