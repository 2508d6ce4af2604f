"""Celery: each task that a worker runs is a request. Its name is the task's, which no client chooses."""

import functools

from .. import greenlets, hops, requests

hops.follow()


def _started(task, message):
    try:
        greenlets.follow()
        name = task if isinstance(task, str) else task.name
        traceparent = message.get("traceparent") if isinstance(message, dict) else None
        return requests.Request(name.encode("utf-8", "replace"), joins=requests.joined(traceparent)).start()
    except Exception:
        return None


def _around(original, message_at):
    @functools.wraps(original)
    def traced(task, *args, **kwargs):
        message = args[message_at] if len(args) > message_at else kwargs.get("request")
        request = _started(task, message)
        try:
            return original(task, *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            if request is not None:
                request.finish()

    return traced


def celery_task(original, site):
    """`trace_task(task, uuid, args, kwargs, request)`."""
    return _around(original, 3)


def celery_fast(original, site):
    """`fast_trace_task(name, uuid, request, body, ...)`, which a pool's processes look up by name."""
    return _around(original, 1)
