"""Programs that start another one with their own sitecustomize, which does not call ours."""

import functools
import os


def keep_path(original, site):
    """`opentelemetry-instrument`: our folder comes first again, and runs its sitecustomize after ours."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

    @functools.wraps(original)
    def execl(file, *arguments):
        paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != here]
        os.environ["PYTHONPATH"] = os.pathsep.join([here] + paths)
        return original(file, *arguments)

    return execl
