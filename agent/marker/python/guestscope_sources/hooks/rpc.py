"""gRPC servers of grpcio and grpclib: the name of a request is its registered method."""

import functools
import inspect

from .. import hops, requests

hops.follow()


def _name(method):
    return method if isinstance(method, bytes) else str(method).encode("utf-8", "replace")


def _joined(metadata):
    for entry in metadata or ():
        if entry[0] == "traceparent":
            return requests.joined(entry[1])
    return None


def _peer(of):
    """The client's port, by which the BPF programs find the time of arrival; 0 without TCP."""
    try:
        text = of.peer()
        text = text.decode("ascii") if isinstance(text, bytes) else text
        return int(text.rsplit(":", 1)[1]) & 0xFFFF if text.startswith(("ipv4:", "ipv6:")) else 0
    except Exception:
        return 0


def _code(state):
    code = getattr(state, "code", None)
    value = getattr(code, "value", None)
    return value[0] if isinstance(value, tuple) else value


def found(original, site):
    """Looks up a call's handler. A call of a registered method lacks the method's name."""

    @functools.wraps(original)
    def _find_method_handler(rpc_event, state, method, *args, **kwargs):
        try:
            if not rpc_event.call_details.method:
                state.guestscope_method = method.name()
        except Exception:
            pass
        return original(rpc_event, state, method, *args, **kwargs)

    return _find_method_handler


def in_pool(original, site):
    """The function that a thread of the pool runs for one call."""

    @functools.wraps(original)
    def wrapper(rpc_event, state, *args, **kwargs):
        request = None
        try:
            name = getattr(state, "guestscope_method", None) or rpc_event.call_details.method
            joins = _joined(rpc_event.invocation_metadata)
            request = requests.Request(_name(name), 0, _peer(rpc_event.call), joins).start()
        except Exception:
            pass
        try:
            return original(rpc_event, state, *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            if request is not None:
                request.note(_code(state))
                request.finish()

    return wrapper


def aio_handlers(original, site):
    """grpc.aio looks up a handler for each call: it gets one that makes a request."""

    @functools.wraps(original)
    def add_generic_rpc_handlers(self, generic_rpc_handlers):
        return original(self, [_Generic(handler) for handler in generic_rpc_handlers])

    return add_generic_rpc_handlers


def aio_registered(original, site):
    @functools.wraps(original)
    def add_registered_method_handlers(self, service_name, method_handlers):
        handlers = {
            name: _observed(handler, "/%s/%s" % (service_name, name), ()) for name, handler in method_handlers.items()
        }
        return original(self, service_name, handlers)

    return add_registered_method_handlers


class _Generic:
    def __init__(self, handler):
        self._handler = handler

    def __getattr__(self, name):
        return getattr(self._handler, name)

    def service(self, details):
        handler = self._handler.service(details)
        try:
            return _observed(handler, details.method, details.invocation_metadata)
        except Exception:
            return handler


_BEHAVIOURS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")


def _observed(handler, method, metadata):
    if handler is None or not hasattr(handler, "_replace"):
        return handler
    behaviours = {name: getattr(handler, name) for name in _BEHAVIOURS if getattr(handler, name, None) is not None}
    observed = {
        name: _behaviour(behaviour, _name(method), metadata, name.endswith("_stream"))
        for name, behaviour in behaviours.items()
    }
    return handler._replace(**observed)


def _behaviour(behaviour, name, metadata, streams):
    """Whatever it is (coroutine function, generator of either kind, function), it stays that. Functions and
    their generators run on a thread of the server's pool."""

    def begun(context):
        return requests.Request(name, 0, _peer(context), _joined(metadata))

    if inspect.isasyncgenfunction(behaviour):

        @functools.wraps(behaviour)
        async def steps(request, context):
            ours = begun(context)
            async for item in hops.stream(behaviour(request, context), ours, lambda: ours.note(_aio_code(context))):
                yield item

        return steps
    if inspect.iscoroutinefunction(behaviour):

        @functools.wraps(behaviour)
        async def driven(request, context):
            ours = begun(context)
            try:
                return await requests.drive(_noted(behaviour, request, context, ours), ours)
            except BaseException as error:
                error.__traceback__ = error.__traceback__.tb_next
                raise

        return driven
    if inspect.isgeneratorfunction(behaviour):

        @functools.wraps(behaviour)
        def on_a_thread(request, context):
            ours = begun(context).start()
            try:
                yield from behaviour(request, context)
            except BaseException as error:
                error.__traceback__ = error.__traceback__.tb_next
                raise
            finally:
                _finish(ours, context)

        return on_a_thread
    if inspect.isroutine(behaviour) and not streams:

        @functools.wraps(behaviour)
        def in_a_thread(request, context):
            ours = begun(context).start()
            try:
                return behaviour(request, context)
            except BaseException as error:
                error.__traceback__ = error.__traceback__.tb_next
                raise
            finally:
                _finish(ours, context)

        return in_a_thread
    # An object that the server inspects, or a callable that gives it an iterator.
    return behaviour


def _finish(request, context):
    try:
        request.note(_aio_code(context))
    except Exception:
        pass
    request.finish()


async def _noted(behaviour, request, context, ours):
    try:
        return await behaviour(request, context)
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next
        raise
    finally:
        ours.note(_aio_code(context))


def _aio_code(context):
    code = context.code()
    return getattr(code, "value", (code,))[0] if code is not None else None


def grpclib_handle(original, site):
    """grpclib's function for one call. Paths without a handler are unbounded, so they are no names."""

    @functools.wraps(original)
    async def request_handler(mapping, stream, headers, *args, **kwargs):
        ours = None
        try:
            given = dict(headers)
            path = given.get(":path")
            name = _name(path) if path in mapping else b"(no such method)"
            ours = requests.Request(name, joins=requests.joined(given.get("traceparent")))
        except Exception:
            pass
        handled = original(mapping, stream, headers, *args, **kwargs)
        try:
            return await (handled if ours is None else requests.drive(handled, ours))
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise

    return request_handler


def grpclib_status(original, site):
    """`Stream.send_trailing_metadata(status=...)`, also for errors."""

    @functools.wraps(original)
    async def send_trailing_metadata(self, *args, **kwargs):
        requests.set_status(getattr(kwargs.get("status"), "value", None))
        try:
            return await original(self, *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise

    return send_trailing_metadata
