"""Requests: a server's hook begins them, a framework's hook adds route and status."""

import contextvars
import itertools

from . import phases
from .marker import marker

_library = marker._library
_open, _live = marker._open, marker._live
#: The request that this context is inside; it may have ended.
current = contextvars.ContextVar("guestscope_request", default=None)
_numbers = itertools.count(1)
_HIDDEN = phases.routes_are_hidden()
#: Known methods: clients may send any other word.
_METHODS = {
    name: name.encode() for name in ("GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH")
}


#: Tokens of the program's own spans, which end when it says so and do not keep a request open (otel.py); to
#: what gives their phases the names that they have by now.
spans = {}


def _nothing():
    """A span that has ended has no name to give."""


#: Names made so far: routes are few and repeat.
_final = {}
_MOST_NAMES = 1_000


class Request:
    """A request. `start` and `finish` are for one thread, `begin` and `rename` for a coroutine's driver."""

    __slots__ = ("name", "number", "scheduled_ns", "joins", "token", "route", "prefixes", "status", "scope", "returned", "_outer")

    def __init__(self, name, number=0, scheduled_ns=0, joins=None):
        self.name = name
        self.number = number or next(_numbers)
        self.scheduled_ns = scheduled_ns
        self.joins = joins
        self.token = self.status = 0
        self.route = self.prefixes = self.scope = self._outer = None
        # The application has answered, and its body has not been read yet.
        self.returned = False

    def begin(self):
        self.token = _library.guestscope_request_from(
            phases.SOURCE, self.name, len(self.name), self.number, self.scheduled_ns
        )
        if self.joins is not None:
            self.join(self.joins)
        current.set(self)
        return self.token

    def start(self):
        """Begins on this thread, until `finish`."""
        token = self.begin()
        _live[token] = marker.get_ident()
        self._outer = _open.get()
        _open.set((self._outer or ()) + (token,))
        return self

    def join(self, trace):
        """Joins this trace."""
        self.joins = trace
        _library.guestscope_context(self.token, *trace)

    @property
    def is_open(self):
        return self.token in _live

    def note(self, status):
        """Sets the status: `200` or `"200 OK"`."""
        if type(status) is int:
            self.status = status
            return
        try:
            self.status = int(status[:3]) if isinstance(status, str) else int(status)
        except (TypeError, ValueError):
            pass

    def at(self, scope, template):
        """A router took this route of an ASGI scope."""
        self.route = (self.prefixes or {}).get(scope.get("root_path", ""), "") + template

    def mounted(self, around, path, template):
        """A router handed the request to an application at `path`, which the template made, within the one at
        `around`."""
        prefixes = self.prefixes = self.prefixes or {}
        prefixes[path] = prefixes.get(around, "") + template

    def final_name(self):
        route = self.route
        if route is None and self.scope is not None:
            # Litestar's name for it.
            route = self.scope.get("path_template")
        if not isinstance(route, str) and self.prefixes:
            # Mounted, and no route of a known router.
            route = list(self.prefixes.values())[-1] + "/{path}"
        if not isinstance(route, str) or _HIDDEN:
            return b""
        final = _final.get((self.name, route))
        if final is None:
            final = self.name + b" " + route.encode("utf-8", "replace")
            if len(_final) < _MOST_NAMES:
                _final[self.name, route] = final
        return final

    def rename(self, token=0):
        """Sets its final name and status, while it is open."""
        name = self.final_name()
        if name or self.status:
            _library.guestscope_rename(self.token, name, len(name), self.status)
        if current.get() is self:
            current.set(None)

    def complete(self):
        """The complete response was sent: nobody waits for what the program does from here on."""
        chain = _open.get()
        if not chain or self.token not in chain or self.token not in _live:
            return
        inside = chain[chain.index(self.token) + 1 :]
        if all(token in spans for token in inside):
            self.rename()
            for token in reversed(inside):
                # Another thread may end the span in between.
                spans.get(token, _nothing)()
                marker._end(token)
            marker._end(self.token)

    def finish(self):
        """Ends what `start` began, with the phases open inside it."""
        chain = _open.get() or ()
        if self.token in _live:
            self.rename()
            for inner in reversed(chain[chain.index(self.token) :] if self.token in chain else ()):
                marker._end(inner)
            marker._end(self.token)
        # The chain of another context must not be cut.
        if self.token in chain:
            _open.set(self._outer)


def of_http(method, traceparent=None, scheduled_ns=0):
    """A request that has not begun. Its path does not matter: it has no bound."""
    name = _METHODS.get(method, b"HTTP") if isinstance(method, str) else b"HTTP"
    return Request(name, 0, scheduled_ns, joined(traceparent) if traceparent is not None else None)


def start_http(method, traceparent=None, scheduled_ns=0):
    """Begins a request on this thread; None if that failed, since the program's own work goes on."""
    try:
        return of_http(method, traceparent, scheduled_ns).start()
    except Exception:
        return None


def of_here():
    """The request that this context is inside, None outside and once it has ended."""
    request = current.get()
    return request if request is not None and request.token in _live else None


async def drive(awaitable, request):
    """Awaits what serves the request, which is left at each suspension."""
    try:
        return await marker._drive(awaitable, request.begin, request.rename)
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next
        raise


def set_status(status):
    """Sets the status of the request that this context is inside."""
    request = current.get()
    if request is not None:
        request.note(status)


def joined(traceparent):
    """(trace id, parent span id) of a traceparent header; None if it is invalid."""
    if traceparent is None:
        return None
    try:
        text = traceparent.decode("ascii") if isinstance(traceparent, bytes) else traceparent
        parts = text[:55].split("-")
        trace, parent = bytes.fromhex(parts[1]), bytes.fromhex(parts[2])
    except (ValueError, IndexError, AttributeError):
        return None
    return (trace, parent) if len(trace) == 16 and len(parent) == 8 and any(trace) and any(parent) else None
