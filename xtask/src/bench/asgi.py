"""A server of Starlette on uvicorn whose handler computes for about 1 ms: `asgi.py PORT`. It knows nothing of
guestscope."""

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route


async def work(request):
    return PlainTextResponse(str(sum(range(60_000))))


app = Starlette(routes=[Route("/work/{id}", work)])
uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False)
