"""A gRPC server without marks, with a pool of threads or on asyncio; `slow` has the fault."""

import asyncio
import os
import signal
import sys
import threading
import time
from concurrent import futures

import grpc

FAULT = float(os.environ.get("FAULT_MS", "30")) / 1e3
PORT, KIND = sys.argv[1:3]


def items(request, context):
    return b"x"


def slow(request, context):
    time.sleep(FAULT)
    return b"x"


async def async_items(request, context):
    await asyncio.sleep(0.001)
    return b"x"


async def async_slow(request, context):
    time.sleep(FAULT)
    return b"x"


def serve(server, quick, long):
    behaviours = {"items": quick, "sync": quick, "slow": long}
    methods = {name: grpc.unary_unary_rpc_method_handler(behaviour) for name, behaviour in behaviours.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("pkg.Service", methods),))
    server.add_insecure_port("127.0.0.1:" + PORT)
    return server


async def on_asyncio():
    server = serve(grpc.aio.server(), async_items, async_slow)
    await server.start()
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    await server.stop(1)


def on_threads():
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    server = serve(grpc.server(futures.ThreadPoolExecutor(4)), items, slow)
    server.start()
    ended.wait()
    server.stop(1).wait()


if KIND == "asyncio":
    asyncio.run(on_asyncio())
else:
    on_threads()
