"""ASGI servers and frameworks: a request from the server's call of the application to the end of its
response."""

import functools
import sys

from .. import apply, hops, requests
from ..marker import marker

_drive = marker._drive
hops.follow()

#: Places where applications are wrapped if no known server calls them.
_APPLICATIONS = []
_known_server = False


def _header(headers):
    for name, value in headers:
        if name == b"traceparent":
            return value
    return None


def _of_scope(scope):
    """A request for the scope; None if none is to begin."""
    try:
        if scope["type"] != "http":
            return None
        request = requests.of_http(scope["method"], _header(scope["headers"]))
        request.scope = scope
        return request
    except Exception:
        return None


def _of_server(scope):
    """The same, called by a known server."""
    request = _of_scope(scope)
    if request is not None and not _known_server:
        _server_is_known()
    return request


def _server_is_known():
    """A known server has called an application inside a request: applications need no wrapper any more."""
    global _known_server
    _known_server = True
    while _APPLICATIONS:
        apply.undo(*_APPLICATIONS.pop())


def uvicorn_cycle(original, site):
    @functools.wraps(original)
    async def run_asgi(self, app):
        request = _of_server(self.scope)
        try:
            if request is None:
                return await original(self, app)
            return await _drive(original(self, app), request.begin, request.rename)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise

    return run_asgi


def uvicorn_send(original, site):
    @functools.wraps(original)
    async def send(self, message):
        try:
            if message["type"] == "http.response.start":
                requests.set_status(message.get("status"))
            return await original(self, message)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise

    return send


def uvicorn_complete(original, site):
    @functools.wraps(original)
    def on_response_complete(self):
        request = requests.of_here()
        try:
            return original(self)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            if request is not None:
                request.complete()

    return on_response_complete


def _observed(send, request):
    @functools.wraps(send)
    async def observed(message):
        kind = message.get("type") if isinstance(message, dict) else None
        if kind == "http.response.start":
            request.note(message.get("status"))
        try:
            await send(message)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        if kind == "http.response.body" and not message.get("more_body"):
            request.complete()

    return observed


def hypercorn_handle(original, site):
    @functools.wraps(original)
    async def _handle(app, config, scope, receive, send, *rest):
        request = _of_server(scope)
        try:
            if request is None:
                return await original(app, config, scope, receive, send, *rest)
            observed = original(app, config, scope, receive, _observed(send, request), *rest)
            return await _drive(observed, request.begin, request.rename)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise

    return _handle


def application(original, site):
    """A framework's application, for servers without a hook of their own."""
    if _known_server:
        return None
    _APPLICATIONS.append((site.module.__name__, site.attribute))

    @functools.wraps(original)
    async def __call__(self, scope, receive, send):
        request = None
        if not _known_server and requests.of_here() is None:
            request = _of_scope(scope)
            replica = _replica_of()
            if request is not None and replica is not None:
                # The proxy has already begun the client's request.
                request.name = b"replica " + request.name
                request.joins = request.joins or replica
        try:
            if request is None:
                return await original(self, scope, receive, send)
            return await requests.drive(original(self, scope, receive, _observed(send, request)), request)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise

    return __call__


def starlette_route(original, site):
    full = site.module.Match.FULL
    get = requests.current.get

    @functools.wraps(original)
    def matches(self, scope):
        result = original(self, scope)
        if result[1]:
            request = get()
            # A route with the right path and the wrong method counts until one with the right method follows.
            if request is not None and (result[0] is full or request.route is None):
                request.at(scope, self.path_format)
        return result

    return matches


def starlette_mount(original, site):
    @functools.wraps(original)
    def matches(self, scope):
        result = original(self, scope)
        request = requests.current.get()
        if request is not None and "root_path" in result[1]:
            request.mounted(scope.get("root_path", ""), result[1]["root_path"], self.path)
        return result

    return matches


def fastapi_selected(original, site):
    """FastAPI from 0.165 on names the route that it took, with the prefixes of included routers."""

    @functools.wraps(original)
    def _route_selected(*args, **kwargs):
        request = requests.current.get()
        path = kwargs.get("path")
        if request is not None and isinstance(path, str) and not kwargs.get("mount"):
            request.at(kwargs.get("scope") or {}, path)
        return original(*args, **kwargs)

    return _route_selected


def _within_requests(original, name):
    """A coroutine function as a phase of the request around it; outside of requests it is no phase."""
    from .. import phases

    observed = phases.coroutine(original, name)

    @functools.wraps(original)
    async def run(*args, **kwargs):
        chosen = original if requests.of_here() is None else observed
        try:
            return await chosen(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise

    return run


def background(original, site):
    """A background task is a phase of the request until the response is sent, and no part of it later."""
    return _within_requests(original, "background")


def fastapi_endpoint(original, site):
    """`run_endpoint_function(*, dependant, ...)`: the program's function, on a pool's thread or here."""

    def name(args, kwargs):
        return kwargs["dependant"].call.__name__

    return _within_requests(original, name)


def _ray_trace(text):
    """Ray Serve's id of a request, which its processes share, as the trace that a request joins."""
    try:
        trace = bytes.fromhex(text.replace("-", ""))[:16]
        return (trace, bytes(8)) if len(trace) == 16 else None
    except (AttributeError, ValueError):
        return None


def _replica_of():
    """The trace to join, if a proxy of Ray Serve has begun its request; None otherwise."""
    context = sys.modules.get("ray.serve.context")
    if context is None:
        return None
    try:
        return _ray_trace(context._serve_request_context.get()._internal_request_id)
    except AttributeError:
        return None


def ray_proxy(original, site):
    """`HTTPProxy.setup_request_context_and_handle(..., internal_request_id)`, inside the request that the
    proxy serves."""

    @functools.wraps(original)
    def setup_request_context_and_handle(self, *args, **kwargs):
        request = requests.of_here()
        if request is not None and request.joins is None:
            trace = _ray_trace(kwargs.get("internal_request_id"))
            if trace is not None:
                request.join(trace)
        return original(self, *args, **kwargs)

    return setup_request_context_and_handle
