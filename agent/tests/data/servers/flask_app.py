"""The application of app.py as a WSGI application of Flask."""

import os

from faults import fault
from flask import Flask
from infer import infer

work = infer(os.environ["SERVICE_KIND"], os.environ["SERVICE_NOTE"])
app = Flask("app")


@app.get("/predict/<int:number>")
def predict(number):
    fault(number)
    return {"result": work()}
