"""A FastAPI application without any marks: SERVICE_KIND is the library that a request uses, SERVICE_NOTE the
prefix of its files. A kind that ends in `-async` works in the event loop."""

import os

import fastapi
from faults import fault
from infer import infer

KIND = os.environ["SERVICE_KIND"]
work = infer(KIND, os.environ["SERVICE_NOTE"])
app = fastapi.FastAPI()

if KIND == "spans":

    @app.get("/predict/{number}")
    def predict(number: int, request: fastapi.Request):
        return {"result": work(dict(request.headers))}

elif KIND == "spans-async":

    @app.get("/predict/{number}")
    async def predict(number: int, request: fastapi.Request):
        return {"result": work(dict(request.headers))}

elif KIND.endswith("-async"):

    @app.get("/predict/{number}")
    async def predict(number: int):
        fault(number)
        return {"result": work()}

else:

    @app.get("/predict/{number}")
    def predict(number: int):
        fault(number)
        return {"result": work()}
