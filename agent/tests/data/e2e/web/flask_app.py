"""A WSGI application without marks; `slow` has the fault."""

import os
import time

from flask import Flask

FAULT = float(os.environ.get("FAULT_MS", "30")) / 1e3
app = Flask("app")


@app.get("/items/<int:id>")
def items(id):
    return {"id": id}


@app.get("/sync/<int:id>")
def sync(id):
    time.sleep(0.001)
    return {"id": id}


@app.get("/slow/<int:id>")
def slow(id):
    time.sleep(FAULT)
    return {"id": id}
