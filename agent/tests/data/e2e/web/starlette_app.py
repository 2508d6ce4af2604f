"""An ASGI application without marks; `slow` has the fault."""

import asyncio
import os
import time

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

FAULT = float(os.environ.get("FAULT_MS", "30")) / 1e3


async def items(request):
    await asyncio.sleep(0.001)
    return PlainTextResponse("item")


def sync(request):
    time.sleep(0.001)
    return PlainTextResponse("sync")


def slow(request):
    time.sleep(FAULT)
    return PlainTextResponse("slow")


app = Starlette(routes=[Route("/items/{id:int}", items), Route("/sync/{id:int}", sync), Route("/slow/{id:int}", slow)])
