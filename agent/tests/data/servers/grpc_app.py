"""app.py as a gRPC server, on a thread pool or on asyncio: `grpc_app.py PORT threads|asyncio`. A request is a
number."""

import asyncio
import os
import signal
import sys
import threading
from concurrent import futures

import grpc
from faults import fault
from infer import infer

PORT, ON = sys.argv[1:3]
work = infer(os.environ["SERVICE_KIND"], os.environ["SERVICE_NOTE"])


def predict(request, context):
    fault(int(request))
    return b"%f" % work()


async def predict_in_the_loop(request, context):
    return predict(request, context)


def serve(server, behaviour):
    method = grpc.unary_unary_rpc_method_handler(behaviour)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", {"predict": method}),))
    server.add_insecure_port("127.0.0.1:" + PORT)
    return server


async def on_asyncio():
    server, ended = serve(grpc.aio.server(), predict_in_the_loop), asyncio.Event()
    await server.start()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    await server.stop(1)


def on_threads():
    server, ended = serve(grpc.server(futures.ThreadPoolExecutor(4)), predict), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    server.start()
    ended.wait()
    server.stop(1).wait()


if ON == "asyncio":
    asyncio.run(on_asyncio())
else:
    on_threads()
