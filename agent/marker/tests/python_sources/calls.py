"""gRPC servers, on threads and on asyncio."""

import asyncio
import sys

from client import PORT, TRACE, settle, thread


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
