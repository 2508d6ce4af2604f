"""An aiohttp server without marks; `slow` has the fault."""

import asyncio
import os
import sys
import time

from aiohttp import web

FAULT = float(os.environ.get("FAULT_MS", "30")) / 1e3


async def items(request):
    await asyncio.sleep(0.001)
    return web.Response(text="item")


async def sync(request):
    await asyncio.get_running_loop().run_in_executor(None, time.sleep, 0.001)
    return web.Response(text="sync")


async def slow(request):
    await asyncio.to_thread(time.sleep, FAULT)
    return web.Response(text="slow")


app = web.Application()
app.router.add_get("/items/{id}", items)
app.router.add_get("/sync/{id}", sync)
app.router.add_get("/slow/{id}", slow)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
