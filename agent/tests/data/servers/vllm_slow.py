"""What `vllm_slow.Slow` adds to an ASGI application (vLLM's option --middleware): a fault of faults.py in every tenth request, by
the number in its traceparent. It is a thread's, so that nobody else waits for it."""

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
