"""aiohttp's server."""

import functools

from .. import hops, requests

hops.follow()


def aiohttp_handle(original, site):
    @functools.wraps(original)
    async def _handle_request(self, request, *args, **kwargs):
        try:
            ours = requests.of_http(request.method, request.headers.get("traceparent"))
        except Exception:
            ours = None
        try:
            if ours is None:
                return await original(self, request, *args, **kwargs)
            return await requests.drive(_told(original, self, request, ours, args, kwargs), ours)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise

    return _handle_request


async def _told(original, self, request, ours, args, kwargs):
    try:
        result = await original(self, request, *args, **kwargs)
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next
        raise
    finally:
        _route(request, ours)
    response = result[0] if isinstance(result, tuple) else result
    ours.note(getattr(response, "status", None))
    return result


def _route(request, ours):
    resource = getattr(getattr(getattr(request, "match_info", None), "route", None), "resource", None)
    template = getattr(resource, "canonical", None)
    if isinstance(template, str):
        ours.route = template
