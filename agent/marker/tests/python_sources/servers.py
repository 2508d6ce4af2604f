"""Real servers and frameworks, one per run: each request of the client is one request, with its route and
status."""

import asyncio
import http.client
import os
import socket
import sys
import time

from client import PORT, TRACE, expect, lines, settle, thread, wait
from calls import grpc, grpc_asyncio  # noqa: F401
from recorder import recorder


def starlette_app():
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse, StreamingResponse
    from starlette.routing import Mount, Route, WebSocketRoute

    async def item(request):
        return PlainTextResponse("x")

    def threaded(request):
        return PlainTextResponse("x")

    async def fails(request):
        raise ValueError("own")

    async def streamed(request):
        async def parts():
            for _ in range(3):
                await asyncio.sleep(0.005)
                yield b"x"

        return StreamingResponse(parts())

    async def endless(request):
        async def parts():
            while True:
                await asyncio.sleep(0.005)
                yield b"x" * 65536

        return StreamingResponse(parts())

    async def talk(socket):
        await socket.accept()
        await socket.close()

    inner = [Route("/s/{x}", streamed), Route("/t", threaded)]
    routes = [Route("/items/{id:int}", item), Route("/fails", fails), Mount("/m/{who}", routes=inner)]
    return Starlette(routes=routes + [Route("/endless", endless), WebSocketRoute("/talk", talk)])


def starlette_requests():
    expect("/items/3", "GET /items/{id}", 200, headers={"traceparent": TRACE})
    expect("/items/3", "HEAD /items/{id}", 200, method="HEAD")
    expect("/items/3", "POST /items/{id}", 405, method="POST")
    expect("/m/bob/s/1?secret=1", "GET /m/{who}/s/{x}", 200)
    expect("/m/bob/t", "GET /m/{who}/t", 200)
    expect("/m/bob/nope", "GET /m/{who}/{path}", 404)
    expect("/fails", "GET /fails", 500)
    expect("/nope/secret", "", 404)
    # A client that leaves: the request ends with the handler.
    with socket.create_connection(("127.0.0.1", PORT), 20) as client:
        client.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
    assert settle() == ["request r GET", "rename r GET /endless 200", "end r"]


def no_websocket_is_a_request():
    """The lifespan message that a server sends to an application at its start is no request either."""
    key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    with socket.create_connection(("127.0.0.1", PORT), 20) as client:
        client.sendall(b"GET /talk HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + key + b"\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 101")
        while client.recv(1000):
            pass
    assert lines() == []


def serve_uvicorn(app, **options):
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, port=PORT, log_level="critical", **options))
    thread(server.run)
    wait()


def uvicorn():
    serve_uvicorn(starlette_app(), http="h11")
    starlette_requests()


def httptools():
    serve_uvicorn(starlette_app(), http="httptools", loop="uvloop")
    starlette_requests()


def fastapi():
    from fastapi import APIRouter, BackgroundTasks, FastAPI

    app, router = FastAPI(), APIRouter(prefix="/v1")

    @app.get("/sync/{id}")
    def sync(id: int):
        return {"id": id}

    @router.get("/users/{name}")
    async def user(name: str, background: BackgroundTasks):
        background.add_task(time.sleep, 0.01)
        return {}

    @app.middleware("http")
    async def middle(request, call_next):
        return await call_next(request)

    app.include_router(router, prefix="/api")
    serve_uvicorn(app)
    expect("/sync/4", "GET /sync/{id}", 200, "begin p sync", "end p")
    expect("/sync/notanumber", "GET /sync/{id}", 422)
    expect("/api/v1/users/bob", "GET /api/v1/users/{name}", 200, "begin p user", "end p")


def litestar():
    from litestar import Litestar, get

    @get("/items/{id:int}")
    async def item(id: int) -> dict:
        return {}

    @get("/sync/{id:int}", sync_to_thread=True)
    def sync(id: int) -> dict:
        return {}

    serve_uvicorn(Litestar([item, sync]))
    expect("/items/3", "GET /items/{id}", 200)
    expect("/sync/3", "GET /sync/{id}", 200)
    expect("/nope", "", 404)


def hypercorn():
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    config = Config()
    config.bind, config.errorlog, config.accesslog = ["127.0.0.1:%d" % PORT], None, None
    thread(lambda: asyncio.run(serve(starlette_app(), config, shutdown_trigger=lambda: asyncio.Future())))
    wait()
    no_websocket_is_a_request()
    starlette_requests()


def test_client():
    """A server without a hook: the framework's application begins the requests."""
    from starlette.testclient import TestClient

    client = TestClient(starlette_app(), raise_server_exceptions=False)
    recorder.take()
    for path, name, status in (("/items/3", "GET /items/{id}", 200), ("/fails", "GET /fails", 500), ("/x", "", 404)):
        assert client.get(path).status_code == status
        seen = [line for line in lines() if line.split()[1] == "r"]
        assert seen == ["request r GET", ("rename r " + name).strip() + " %d" % status, "end r"], seen


def flask_app():
    from flask import Flask, Response

    app = Flask("app")

    @app.route("/items/<int:id>")
    def item(id):
        return str(id)

    @app.route("/streamed")
    def streamed():
        return Response(str(part) for part in range(3))

    @app.route("/waits")
    def waits():
        time.sleep(0.05)
        return "x"

    @app.route("/fails")
    def fails():
        raise ValueError("own")

    app.logger.disabled = True
    return app


def flask_requests():
    expect("/items/3", "GET /items/<int:id>", 200, headers={"traceparent": TRACE})
    expect("/streamed?secret=1", "GET /streamed", 200)
    expect("/fails", "GET /fails", 500)
    expect("/nope/secret", "", 404)


def werkzeug():
    import logging

    logging.getLogger("werkzeug").disabled = True
    thread(lambda: flask_app().run(port=PORT))
    wait()
    flask_requests()


def wsgiref():
    from wsgiref.simple_server import WSGIRequestHandler, make_server

    WSGIRequestHandler.log_message = lambda *_: None
    thread(make_server("127.0.0.1", PORT, flask_app()).serve_forever)
    wait()
    flask_requests()


def waitress():
    import waitress

    thread(lambda: waitress.serve(flask_app(), port=PORT, host="127.0.0.1"))
    wait()
    flask_requests()


def flask_client():
    client = flask_app().test_client()
    recorder.take()
    for path, name, status in (("/items/3", "GET /items/<int:id>", 200), ("/streamed", "GET /streamed", 200)):
        assert client.get(path).status_code == status
        assert lines() == ["request r GET", "rename r %s %d" % (name, status), "end r"]
    # Answers that nobody reads: the next request ends them, they do not nest.
    unread = [client.get("/streamed", buffered=False) for _ in range(3)]
    assert [line.split()[0] for line in lines()] == ["request", "rename", "end"] * 2 + ["request"], unread


def gevent():
    from gevent import joinall, monkey, spawn

    monkey.patch_all()
    from gevent.pywsgi import WSGIServer

    server = WSGIServer(("127.0.0.1", PORT), flask_app(), log=None)
    server.start()
    recorder.take()

    def ask(path):
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=20)
        connection.request("GET", path)
        connection.getresponse().read()

    joinall([spawn(ask, path) for path in ("/waits", "/items/3", "/waits")], raise_error=True)
    take_turns([line.split(" ", 1)[1] for line in recorder.take()])


def take_turns(taken):
    """The thread leaves a request while that waits, and serves the others."""
    assert sum(line.startswith("rename") and line.endswith("200") for line in taken) == 3, taken
    inside = set()
    for line in taken:
        word, which = line.split()[:2]
        if word in ("request", "enter"):
            assert not inside, (line, taken)
            inside.add(which)
        elif word in ("leave", "end"):
            inside.discard(which)


def django():
    import logging

    from django.conf import settings

    logging.getLogger("django").disabled = True
    settings.configure(ROOT_URLCONF="__main__", ALLOWED_HOSTS=["*"], SECRET_KEY="x", LOGGING_CONFIG=None)
    import django as framework

    framework.setup()
    from django.core.asgi import get_asgi_application
    from django.core.servers.basehttp import WSGIRequestHandler, WSGIServer
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpResponse
    from django.urls import include, path

    def item(request, id):
        return HttpResponse("x")

    async def driven(request, id):
        return HttpResponse("x")

    global urlpatterns
    urlpatterns = [path("items/<int:id>/", item), path("sub/", include([path("a/<id>", driven)]))]
    if os.environ.get("DJANGO") == "asgi":
        serve_uvicorn(get_asgi_application(), lifespan="off")
    else:
        WSGIRequestHandler.log_message = lambda *_: None
        server = WSGIServer(("127.0.0.1", PORT), WSGIRequestHandler)
        server.set_app(get_wsgi_application())
        thread(server.serve_forever)
        wait()
    expect("/items/3/", "GET /items/<int:id>/", 200)
    expect("/sub/a/4", "GET /sub/a/<id>", 200)
    expect("/nope", "", 404)


def django_asgi():
    os.environ["DJANGO"] = "asgi"
    django()


def aiohttp():
    from aiohttp import web

    async def item(request):
        await asyncio.sleep(0.001)
        return web.Response(text="x")

    async def fails(request):
        raise ValueError("own")

    async def gone(request):
        raise web.HTTPGone()

    def run():
        app = web.Application()
        app.router.add_get("/items/{id}", item)
        app.router.add_get("/fails", fails)
        app.router.add_get("/gone", gone)
        web.run_app(app, host="127.0.0.1", port=PORT, handle_signals=False, print=None, access_log=None)

    import logging

    logging.getLogger("aiohttp.server").disabled = True
    thread(run)
    wait()
    expect("/items/3", "GET /items/{id}", 200, headers={"traceparent": TRACE})
    expect("/fails", "GET /fails", 500)
    expect("/gone", "GET /gone", 410)
    expect("/nope", "", 404)


def run(program):
    try:
        program()
    except ModuleNotFoundError as error:
        print("missing: " + error.name)
    except BaseException as error:
        if not isinstance(error, SystemExit):
            __import__("traceback").print_exc()
        else:
            print(error, file=sys.stderr)
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    run(globals()[sys.argv[1]])
