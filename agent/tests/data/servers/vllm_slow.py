"""An ASGI middleware for vLLM's option --middleware: `vllm_slow.Slow` adds a fault of faults.py to every
tenth request, by the number in its traceparent. The fault runs on a thread, so that no other request waits
for it."""

import asyncio

import faults


class Slow:
    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            number = dict(scope["headers"]).get(b"traceparent", b"")[3:35]
            number = int(number, 16) if number else 1
            if number % faults.EVERY == 0:
                await asyncio.to_thread(faults.fault, number)
        await self.app(scope, receive, send)
