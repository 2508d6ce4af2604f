"""gRPC servers, on threads and on asyncio."""

import asyncio
import sys

from client import PORT, TRACE, settle, thread, wait


def grpc_calls():
    import grpc

    channel = grpc.insecure_channel("127.0.0.1:%d" % PORT)
    call = channel.unary_unary("/pkg.Service/Unary")
    assert call(b"ok", timeout=20, wait_for_ready=True, metadata=(("traceparent", TRACE),)) == b"x"
    assert settle() == ["request r /pkg.Service/Unary", "joins r 0af76519", "end r"]
    try:
        call(b"bad", timeout=20)
        sys.exit("no error came")
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.NOT_FOUND
    assert settle() == ["request r /pkg.Service/Unary", "rename r 5", "end r"]
    assert list(channel.unary_stream("/pkg.Service/Stream")(b"ok", timeout=20)) == [b"x"] * 3
    assert settle() == ["request r /pkg.Service/Stream", "end r"]


def grpc_handlers(unary, stream):
    import grpc

    unary, stream = grpc.unary_unary_rpc_method_handler(unary), grpc.unary_stream_rpc_method_handler(stream)
    return (grpc.method_handlers_generic_handler("pkg.Service", {"Unary": unary, "Stream": stream}),)


def grpc():
    from concurrent import futures

    import grpc

    def unary(request, context):
        if request == b"bad":
            context.abort(grpc.StatusCode.NOT_FOUND, "no")
        return b"x"

    def stream(request, context):
        yield from (b"x", b"x", b"x")

    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers(grpc_handlers(unary, stream))
    server.add_insecure_port("127.0.0.1:%d" % PORT)
    server.start()
    grpc_calls()


def grpc_asyncio():
    import grpc

    async def unary(request, context):
        await asyncio.sleep(0.001)
        if request == b"bad":
            await context.abort(grpc.StatusCode.NOT_FOUND, "no")
        return b"x"

    async def stream(request, context):
        for _ in range(3):
            await asyncio.sleep(0.001)
            yield b"x"

    async def main():
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(grpc_handlers(unary, stream))
        server.add_insecure_port("127.0.0.1:%d" % PORT)
        await server.start()
        await server.wait_for_termination()

    thread(lambda: asyncio.run(main()))
    grpc_calls()


def messages():
    """gRPC as its generator of code registers methods, whose calls do not carry their names."""
    import grpc

    return {
        "Unary": grpc.unary_unary_rpc_method_handler(lambda request, context: b"x"),
        "Stream": grpc.unary_stream_rpc_method_handler(lambda request, context: iter([b"x"] * 3)),
    }


def registered_calls(names):
    import grpc

    channel = grpc.insecure_channel("127.0.0.1:%d" % PORT)
    make = {"Unary": channel.unary_unary, "Stream": channel.unary_stream}
    for name in names:
        answer = make[name]("/pkg.Service/" + name, _registered_method=True)(b"ok", timeout=20, wait_for_ready=True)
        assert answer == b"x" or list(answer) == [b"x"] * 3
        assert settle() == ["request r /pkg.Service/" + name, "end r"], name


def grpc_registered():
    from concurrent import futures

    import grpc

    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_registered_method_handlers("pkg.Service", messages())
    server.add_insecure_port("127.0.0.1:%d" % PORT)
    server.start()
    registered_calls(["Unary", "Stream"])


def grpc_threads_of_asyncio():
    """Handlers that are plain functions run on threads of an asyncio server."""
    import grpc

    def stream(request, context):
        yield from (b"x", b"x", b"x")

    handlers = dict(messages(), Stream=grpc.unary_stream_rpc_method_handler(stream))

    async def main():
        server = grpc.aio.server()
        server.add_registered_method_handlers("pkg.Service", handlers)
        server.add_insecure_port("127.0.0.1:%d" % PORT)
        await server.start()
        await server.wait_for_termination()

    thread(lambda: asyncio.run(main()))
    registered_calls(["Unary", "Stream"])


def grpclib():
    import grpclib.const
    import grpclib.exceptions
    import grpclib.server

    class Raw:
        """No messages of protobuf: bytes."""

        __content_subtype__ = "proto"

        def encode(self, message, message_type):
            return message

        def decode(self, data, message_type):
            return data

    async def unary(stream):
        request = await stream.recv_message()
        if request == b"bad":
            raise grpclib.exceptions.GRPCError(grpclib.const.Status.NOT_FOUND, "no")
        await stream.send_message(b"x")

    class Service:
        def __mapping__(self):
            handler = grpclib.const.Handler(unary, grpclib.const.Cardinality.UNARY_UNARY, None, None)
            return {"/pkg.Service/Unary": handler}

    async def main():
        server = grpclib.server.Server([Service()], codec=Raw())
        await server.start("127.0.0.1", PORT)
        await server.wait_closed()

    thread(lambda: asyncio.run(main()))
    wait()
    import grpc

    call = grpc.insecure_channel("127.0.0.1:%d" % PORT).unary_unary
    assert call("/pkg.Service/Unary")(b"ok", timeout=20, metadata=(("traceparent", TRACE),)) == b"x"
    assert settle() == ["request r /pkg.Service/Unary", "joins r 0af76519", "end r"]
    for path, sent, status in (("/pkg.Service/Unary", b"bad", 5), ("/pkg.Service/Guessed", b"ok", 12)):
        try:
            call(path)(sent, timeout=20)
            sys.exit("no error came")
        except grpc.RpcError as error:
            assert error.code().value[0] == status
        # A path that nobody serves has no bound, and grpclib's stream for it no status.
        known = ["request r " + path, "rename r %d" % status, "end r"]
        assert settle() == (known if status == 5 else ["request r (no such method)", "end r"])
