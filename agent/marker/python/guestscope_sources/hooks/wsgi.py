"""WSGI servers and frameworks: a request from the server's call of the application until its iterator is
closed."""

import functools

from .. import apply, greenlets, hops, requests

hops.follow()

_APPLICATIONS = []
_known_server = False


def _server_is_known():
    """A known server has called an application inside a request: applications need no wrapper any more."""
    global _known_server
    _known_server = True
    while _APPLICATIONS:
        apply.undo(*_APPLICATIONS.pop())


def _around(original, describe):
    """A request around each call; `describe` gives method and traceparent from the call's arguments."""

    @functools.wraps(original)
    def wrapper(*args, **kwargs):
        request = None
        try:
            if not _known_server:
                _server_is_known()
            greenlets.follow()
            request = requests.start_http(*describe(args))
        except Exception:
            pass
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            if request is not None:
                request.finish()

    return wrapper


def _named(headers, wanted):
    for name, value in headers:
        if name == wanted:
            return value
    return None


def gunicorn_sync(original, site):
    return _around(original, lambda args: (args[2].method, _named(args[2].headers, "TRACEPARENT")))


def gunicorn_thread(original, site):
    return _around(original, lambda args: (args[1].method, _named(args[1].headers, "TRACEPARENT")))


gunicorn_async = gunicorn_sync


def wsgiref_run(original, site):
    def describe(args):
        environ = getattr(args[0], "base_env", None) or {}
        return environ.get("REQUEST_METHOD"), environ.get("HTTP_TRACEPARENT")

    return _around(original, describe)


def werkzeug_run(original, site):
    return _around(original, lambda args: (args[0].command, args[0].headers.get("traceparent")))


def waitress_execute(original, site):
    def describe(args):
        parsed = args[0].request
        return parsed.command, parsed.headers.get("TRACEPARENT")

    return _around(original, describe)


def gevent_response(original, site):
    def describe(args):
        return args[0].command, args[0].headers.get("traceparent")

    return _around(original, describe)


def cheroot_respond(original, site):
    """Cheroot, the server of CherryPy. Its strings are bytes."""

    def describe(args):
        request = args[0].req
        traceparent = request.inheaders.get(b"Traceparent")
        return request.method.decode("latin-1"), traceparent

    return _around(original, describe)


def eventlet_response(original, site):
    """Eventlet has no method for the status: it is taken from the application's call of `start_response`."""
    served = _around(original, lambda args: (args[0].command, args[0].headers.get("traceparent")))

    @functools.wraps(original)
    def handle_one_response(self):
        application = self.application
        self.application = _noting(application)
        try:
            return served(self)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            self.application = application

    return handle_one_response


def _noting(application):
    def noting(environ, start_response):
        @functools.wraps(start_response)
        def started(status, *args, **kwargs):
            requests.set_status(status)
            return start_response(status, *args, **kwargs)

        try:
            return application(environ, started)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise

    return noting


def status(original, site):
    """A method whose first argument is the status: `start_response(status, headers)` and the like."""

    @functools.wraps(original)
    def wrapper(self, *args, **kwargs):
        requests.set_status(args[0] if args else kwargs.get("status", kwargs.get("code")))
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise

    return wrapper


def waitress_status(original, site):
    """Waitress has no method for the status: the task keeps the one that the application gave."""

    @functools.wraps(original)
    def build_response_header(self):
        requests.set_status(self.status)
        return original(self)

    return build_response_header


class _Body:
    """An application's iterable, for servers without a hook: the request ends when it is closed."""

    def __init__(self, body, request):
        self._body, self._steps, self._request = body, None, request

    def __iter__(self):
        self._steps = iter(self._body)
        return self

    def __next__(self):
        if self._steps is None:
            self._steps = iter(self._body)
        try:
            return next(self._steps)
        except StopIteration:
            # Test clients may not close it.
            self._request.finish()
            raise

    def __del__(self):
        self._request.finish()

    def close(self):
        try:
            close = getattr(self._body, "close", None)
            if close is not None:
                close()
        finally:
            self._request.finish()


def application(original, site):
    if _known_server:
        return None
    _APPLICATIONS.append((site.module.__name__, site.attribute))

    @functools.wraps(original)
    def __call__(self, environ, start_response):
        request, before = None, requests.of_here()
        if before is not None and before.returned:
            # It was not read to its end, as by test clients.
            before.finish()
            before = None
        if not _known_server and before is None:
            greenlets.follow()
            request = requests.start_http(environ.get("REQUEST_METHOD"), environ.get("HTTP_TRACEPARENT"))
        if request is None:
            return _plain(original, self, environ, start_response)

        @functools.wraps(start_response)
        def started(status, *args, **kwargs):
            request.note(status)
            return start_response(status, *args, **kwargs)

        body = None
        try:
            body = original(self, environ, started)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            if not hasattr(body, "close") or isinstance(body, environ.get("wsgi.file_wrapper") or ()):
                request.finish()
                request = None
        if request is None:
            return body
        request.returned = True
        return _Body(body, request)

    return __call__


def _plain(original, self, environ, start_response):
    try:
        return original(self, environ, start_response)
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next
        raise


def flask_route(original, site):
    @functools.wraps(original)
    def match_request(self, *args, **kwargs):
        result = original(self, *args, **kwargs)
        request = requests.current.get()
        rule = getattr(getattr(self, "request", None), "url_rule", None)
        if request is not None and rule is not None:
            request.route = rule.rule
        return result

    return match_request


def django_route(original, site):
    @functools.wraps(original)
    def resolve_request(self, request):
        try:
            match = original(self, request)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        ours = requests.current.get()
        route = getattr(match, "route", None)
        if ours is not None and isinstance(route, str):
            ours.route = "/" + route.lstrip("/")
        return match

    return resolve_request
