"""Programs that start the real one with their own folder in front of PYTHONPATH, and a sitecustomize in it that ends there."""

import functools
import os


def keep_path(original, site):
    """`opentelemetry-instrument` replaces itself: this folder comes first again, and runs that sitecustomize after its own."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

    @functools.wraps(original)
    def execl(file, *arguments):
        paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != here]
        os.environ["PYTHONPATH"] = os.pathsep.join([here] + paths)
        return original(file, *arguments)

    return execl
