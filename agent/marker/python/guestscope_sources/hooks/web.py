"""Servers and routers of other frameworks: http.server, Tornado, Sanic, Quart, Falcon, Bottle."""

import functools
import sys
import weakref

from .. import apply, hops, requests

hops.follow()


def stdlib_handle(original, site):
    """`BaseHTTPRequestHandler.handle_one_request`: the request begins when its head has been read
    (`stdlib_parse`)."""

    @functools.wraps(original)
    def handle_one_request(self):
        # Werkzeug's handler is one of these, and has a hook of its own. The request is kept by the handler:
        # greenlets may share what is kept by the thread.
        vars(self)["_guestscope"] = None if hasattr(self, "run_wsgi") else ()
        try:
            return original(self)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            request = vars(self).pop("_guestscope", None)
            if request:
                request.finish()

    return handle_one_request


def stdlib_parse(original, site):
    @functools.wraps(original)
    def parse_request(self):
        is_whole = original(self)
        if is_whole and vars(self).get("_guestscope") == () and requests.of_here() is None:
            headers = self.headers
            traceparent = headers.get("traceparent") if headers else None
            self._guestscope = requests.start_http(self.command, traceparent) or ()
        return is_whole

    return parse_request


def tornado_execute(original, site):
    """`RequestHandler._execute`, from the parsed request to the end of the response."""

    @functools.wraps(original)
    async def _execute(self, *args, **kwargs):
        ours = None
        try:
            sockets = sys.modules.get("tornado.websocket")
            if sockets is None or not isinstance(self, sockets.WebSocketHandler):
                ours = requests.of_http(self.request.method, self.request.headers.get("traceparent"))
                ours.route = _matched.get(self.request)
        except Exception:
            pass
        try:
            if ours is None:
                return await original(self, *args, **kwargs)
            return await requests.drive(_told(original, self, ours, args, kwargs), ours)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise

    return _execute


async def _told(original, handler, ours, args, kwargs):
    try:
        return await original(handler, *args, **kwargs)
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next
        raise
    finally:
        ours.note(handler.get_status())


#: By Tornado's request: the last pattern that its path matched.
_matched = weakref.WeakKeyDictionary()


def tornado_match(original, site):
    @functools.wraps(original)
    def match(self, request):
        result = original(self, request)
        if result is not None:
            try:
                pattern = self.regex.pattern
                _matched[request] = pattern[:-1] if pattern.endswith("$") else pattern
            except Exception:
                pass
        return result

    return match


def sanic_handle(original, site):
    """`Sanic.handle_request`, under Sanic's own server or, as ASGI, inside another server's request."""

    @functools.wraps(original)
    async def handle_request(self, request, *args, **kwargs):
        ours = None
        around = requests.of_here()
        try:
            if around is None and "upgrade" not in request.headers:
                ours = requests.of_http(request.method, request.headers.get("traceparent"))
        except Exception:
            pass
        handled = _noted(original, self, request, ours or around, args, kwargs)
        try:
            return await (handled if ours is None else requests.drive(handled, ours))
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise

    return handle_request


def sanic_touched(original, site):
    """`TouchUp.run` compiles methods of Sanic again from their source: their wrappers are put back."""

    @functools.wraps(original)
    def run(cls, *args, **kwargs):
        try:
            return original(cls, *args, **kwargs)
        finally:
            app = sys.modules.get("sanic.app")
            if app is not None:
                apply.rows("sanic.app", app, (("Sanic.handle_request", "web.sanic_handle"),))

    return run


async def _noted(original, app, request, ours, args, kwargs):
    try:
        return await original(app, request, *args, **kwargs)
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next
        raise
    finally:
        if ours is not None:
            ours.note(getattr(getattr(request.stream, "response", None), "status", None))


def _took(template):
    request = requests.current.get()
    if request is not None and isinstance(template, str):
        request.route = template


def sanic_route(original, site):
    @functools.wraps(original)
    def get(self, *args, **kwargs):
        found = original(self, *args, **kwargs)
        path = getattr(found[0] if isinstance(found, tuple) and found else None, "path", None)
        _took("/" + path if isinstance(path, str) else None)
        return found

    return get


def quart_route(original, site):
    @functools.wraps(original)
    def match_request(self, *args, **kwargs):
        result = original(self, *args, **kwargs)
        connection = getattr(self, "request_websocket", None) or getattr(self, "request", None)
        _took(getattr(getattr(connection, "url_rule", None), "rule", None))
        return result

    return match_request


def falcon_route(original, site):
    @functools.wraps(original)
    def _get_responder(self, *args, **kwargs):
        found = original(self, *args, **kwargs)
        _took(found[3] if isinstance(found, tuple) and len(found) > 3 else None)
        return found

    return _get_responder


def bottle_route(original, site):
    @functools.wraps(original)
    def match(self, *args, **kwargs):
        found = original(self, *args, **kwargs)
        _took(getattr(found[0] if isinstance(found, tuple) and found else None, "rule", None))
        return found

    return match
