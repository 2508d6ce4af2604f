"""Further servers, tested as in servers.py: each request of the client is one request, with its route."""

import asyncio
import http.client
import os
import sys
import threading
import time

import servers
from calls import grpc_registered, grpc_threads_of_asyncio, grpclib  # noqa: F401
from client import PORT, TRACE, expect, lines, settle, thread, wait
from recorder import recorder


def stdlib():
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.send_response(404 if "nope" in self.path else 200)
            self.send_header("Content-Length", "1")
            self.end_headers()
            self.wfile.write(b"x")

        def do_PUT(self):
            # By the name that the library gives it.
            self.send_response_only(code=409)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    thread(ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever)
    wait()
    expect("/items/3?secret=1", "", 200, headers={"traceparent": TRACE})
    expect("/nope", "", 404)
    # It has no handler for this method, and says so.
    expect("/x", "", 501, method="POST")
    expect("/y", "", 409, method="PUT")


def xmlrpc():
    import xmlrpc.client
    from xmlrpc.server import SimpleXMLRPCServer

    server = SimpleXMLRPCServer(("127.0.0.1", PORT), logRequests=False)
    server.register_function(lambda number: number + 1, "next")
    thread(server.serve_forever)
    wait()
    assert xmlrpc.client.ServerProxy("http://127.0.0.1:%d" % PORT).next(1) == 2
    assert settle() == ["request r POST", "rename r 200", "end r"]


def tornado():
    from tornado import web, websocket

    class Item(web.RequestHandler):
        async def get(self, id):
            await asyncio.sleep(0.001)
            self.write("x")

    class Fails(web.RequestHandler):
        def get(self):
            raise web.HTTPError(503)

    class Talk(websocket.WebSocketHandler):
        def open(self):
            self.close()

    async def main():
        routes = [(r"/items/(\d+)", Item), (r"/fails", Fails), (r"/talk", Talk)]
        web.Application(routes, log_function=lambda _: None).listen(PORT, "127.0.0.1")
        await asyncio.Event().wait()

    thread(lambda: asyncio.run(main()))
    wait()
    expect("/items/3", r"GET /items/(\d+)", 200, headers={"traceparent": TRACE})
    expect("/fails", "GET /fails", 503)
    expect("/nope/secret", "", 404)
    servers.no_websocket_is_a_request()


def sanic():
    from sanic import Sanic, text

    app = Sanic("app", configure_logging=False)

    @app.get("/items/<id:int>")
    async def item(request, id):
        return text("x")

    @app.get("/streamed/<id:int>")
    async def streamed(request, id):
        response = await request.respond(content_type="text/plain")
        for _ in range(3):
            await asyncio.sleep(0.002)
            await response.send("x")
        await response.eof()

    def client():
        wait()
        try:
            expect("/items/3", "GET /items/<id:int>", 200, headers={"traceparent": TRACE})
            expect("/streamed/3", "GET /streamed/<id:int>", 200)
            expect("/nope/secret", "", 404)
            os._exit(0)
        except BaseException as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(1)

    if "asgi" in sys.argv:
        servers.serve_uvicorn(app)
        client()
    # Its own server wants the main thread.
    thread(client)
    app.run("127.0.0.1", PORT, single_process=True, access_log=False, motd=False)


def quart():
    from quart import Quart

    app = Quart("app")

    @app.get("/items/<int:id>")
    async def item(id):
        return "x"

    @app.get("/sync/<id>")
    def sync(id):
        return "x"

    servers.serve_uvicorn(app)
    expect("/items/3", "GET /items/<int:id>", 200)
    expect("/sync/3", "GET /sync/<id>", 200)
    expect("/nope", "", 404)


def falcon():
    import falcon
    import falcon.asgi

    class Item:
        async def on_get(self, request, response, id):
            response.text = "x"

    app = falcon.asgi.App()
    app.add_route("/items/{id:int}", Item())
    servers.serve_uvicorn(app)
    expect("/items/3", "GET /items/{id:int}", 200)
    expect("/nope", "", 404)


def served_by_wsgiref(app):
    from wsgiref.simple_server import WSGIRequestHandler, make_server

    WSGIRequestHandler.log_message = lambda *_: None
    thread(make_server("127.0.0.1", PORT, app).serve_forever)
    wait()
    expect("/items/3", app_route(app), 200)
    expect("/nope", "", 404)


def app_route(app):
    return "GET /items/<id:int>" if type(app).__name__ == "Bottle" else "GET /items/{id:int}"


def falcon_wsgi():
    import falcon

    class Item:
        def on_get(self, request, response, id):
            response.text = "x"

    app = falcon.App()
    app.add_route("/items/{id:int}", Item())
    served_by_wsgiref(app)


def bottle():
    from bottle import Bottle

    app = Bottle()
    app.get("/items/<id:int>", callback=lambda id: "x")
    served_by_wsgiref(app)


def cheroot():
    from cheroot.wsgi import Server

    def app(environ, start_response):
        start_response("200 OK" if environ["PATH_INFO"] == "/" else "404 Not Found", [])
        return [b"x"]

    thread(Server(("127.0.0.1", PORT), app).start)
    wait()
    expect("/", "", 200, headers={"traceparent": TRACE})
    expect("/nope?secret=1", "", 404)


def eventlet():
    import eventlet

    eventlet.monkey_patch()
    from eventlet import wsgi

    app, done = servers.flask_app(), []
    listener = eventlet.listen(("127.0.0.1", PORT))
    eventlet.spawn(wsgi.server, listener, app, log_output=False)

    def ask(path):
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=20)
        connection.request("GET", path)
        connection.getresponse().read()
        done.append(path)

    recorder.take()
    [each.wait() for each in [eventlet.spawn(ask, path) for path in ("/waits", "/items/3", "/waits")]]
    # What it serves while another one waits is no part of that one.
    servers.take_turns([line.split(" ", 1)[1] for line in recorder.take()])


def background():
    """The program's own spans are open while the response is sent; work after it is no part of the
    request."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from starlette.applications import Starlette
    from starlette.background import BackgroundTask
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    trace.set_tracer_provider(TracerProvider())
    tracer, done = trace.get_tracer("own"), threading.Event()

    def later():
        time.sleep(0.02)
        done.set()

    async def item(request):
        return PlainTextResponse("x", background=BackgroundTask(later))

    app = Starlette(routes=[Route("/items/{id}", item)])

    async def around(scope, receive, send):
        if scope["type"] != "http":
            return await app(scope, receive, send)
        span = tracer.start_span("own")
        with trace.use_span(span, end_on_exit=True):
            await app(scope, receive, send)
            span.update_name("late")

    servers.serve_uvicorn(around)
    http.client.HTTPConnection("127.0.0.1", PORT).request("GET", "/items/3")
    assert done.wait(20)
    time.sleep(0.1)
    seen = [line for line in lines() if not line.startswith("below")]
    # A request that has ended gets no further status or name.
    assert seen == ["request r GET", "otel p own", "rename r GET /items/{id} 200", "end p", "end r"], seen


def celery():
    import pickle

    from celery import Celery
    from celery.app import trace

    app = Celery("own", broker="memory://", backend="cache+memory://")

    @app.task(name="own.next")
    def next(number):
        return number + 1 if number else 1 / number

    recorder.take()
    header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    assert trace.trace_task(next, "id", (1,), {}, {"traceparent": header}, app=app)[0] == 2
    assert lines() == ["request r own.next", "joins r 0af76519", "end r"]
    # What it raises is its result.
    assert isinstance(trace.trace_task(next, "id", (0,), {}, {"id": "id"}, app=app)[0].exception, ZeroDivisionError)
    trace.setup_worker_optimizations(app)
    next.__trace__ = trace.build_tracer(next.name, next, app=app)
    fast = pickle.loads(pickle.dumps(trace.fast_trace_task))
    assert fast is trace.fast_trace_task
    assert fast("own.next", "id", {}, ((1,), {}, {}), None, None)[:2] == (0, "2")
    assert lines() == ["request r own.next", "end r"] * 2


#: What the hooks use of Ray Serve, which takes a minute to start.
RAY = {
    "ray/serve/context.py": """
import contextvars
class _RequestContext:
    def __init__(self, id): self._internal_request_id = id
_serve_request_context = contextvars.ContextVar("context", default=None)
""",
    "ray/serve/_private/proxy.py": """
import ray.serve.context
class HTTPProxy:
    def setup_request_context_and_handle(self, internal_request_id): return "handle"
""",
}


def ray():
    """The proxy has the client's request; a replica's work for it is in the same trace, under another
    name."""
    import pathlib
    import tempfile

    folder = pathlib.Path(tempfile.mkdtemp())
    for name, text in RAY.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    sys.path.insert(0, str(folder))
    from guestscope_sources import requests
    from ray.serve import context
    from ray.serve._private.proxy import HTTPProxy
    from starlette.testclient import TestClient

    id = "0af76519-16cd-43dd-8448-eb211c80319c"
    client = TestClient(servers.starlette_app())
    recorder.take()
    request = requests.start_http("GET")
    assert HTTPProxy().setup_request_context_and_handle(internal_request_id=id) == "handle"
    request.finish()
    assert lines() == ["request r GET", "joins r 0af76519", "end r"]
    context._serve_request_context.set(context._RequestContext(id))
    assert client.get("/items/3").status_code == 200
    seen = [line for line in lines() if line.split()[1] == "r"]
    named = "rename r replica GET /items/{id} 200"
    assert seen == ["request r replica GET", "joins r 0af76519", named, "end r"], seen


if __name__ == "__main__":
    servers.run(globals()[sys.argv[1]])
