"""A FastAPI application without marks; `slow` has the fault: it keeps the event loop busy."""

import asyncio
import os
import time

from fastapi import FastAPI

FAULT = float(os.environ.get("FAULT_MS", "30")) / 1e3
app = FastAPI()


@app.middleware("http")
async def middle(request, call_next):
    return await call_next(request)


@app.get("/items/{id}")
async def items(id: int):
    await asyncio.sleep(0.001)
    return {"id": id}


@app.get("/sync/{id}")
def sync(id: int):
    time.sleep(0.001)
    return {"id": id}


@app.get("/slow/{id}")
async def slow(id: int):
    end = time.thread_time() + FAULT
    while time.thread_time() < end:
        pass
    return {"id": id}
