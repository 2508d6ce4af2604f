"""The one table: which attribute of which module is wrapped, and by which function of which file of `hooks`.

A line is `module attribute kind`; an attribute that may be missing, since versions differ, ends in `?`. `*` is the module itself. A text
and no tuple, because Python compiles this file at every start.
"""

TABLE = """
# Requests: ASGI
uvicorn.protocols.http.h11_impl        RequestResponseCycle.run_asgi       asgi.uvicorn_cycle
uvicorn.protocols.http.h11_impl        RequestResponseCycle.send           asgi.uvicorn_send
uvicorn.protocols.http.h11_impl        H11Protocol.on_response_complete    asgi.uvicorn_complete
uvicorn.protocols.http.httptools_impl  RequestResponseCycle.run_asgi       asgi.uvicorn_cycle
uvicorn.protocols.http.httptools_impl  RequestResponseCycle.send           asgi.uvicorn_send
uvicorn.protocols.http.httptools_impl  HttpToolsProtocol.on_response_complete  asgi.uvicorn_complete
hypercorn.asyncio.task_group           _handle                             asgi.hypercorn_handle
hypercorn.trio.task_group              _handle                             asgi.hypercorn_handle
starlette.applications                 Starlette.__call__                  asgi.application
starlette.routing                      Route.matches                       asgi.starlette_route
starlette.routing                      Mount.matches                       asgi.starlette_mount
fastapi.routing                        _route_selected?                    asgi.fastapi_selected
starlette.background                   BackgroundTask.__call__             asgi.background
litestar.app                           Litestar.__call__                   asgi.application
quart.app                              Quart.__call__                      asgi.application
django.core.handlers.asgi              ASGIHandler.__call__                asgi.application
# Requests: WSGI
gunicorn.http.wsgi                     Response.start_response             wsgi.status
gunicorn.workers.sync                  SyncWorker.handle_request           wsgi.gunicorn_sync
gunicorn.workers.gthread               ThreadWorker.handle_request         wsgi.gunicorn_thread
gunicorn.workers.base_async            AsyncWorker.handle_request          wsgi.gunicorn_async
wsgiref.handlers                       BaseHandler.run                     wsgi.wsgiref_run
wsgiref.handlers                       BaseHandler.start_response          wsgi.status
werkzeug.serving                       WSGIRequestHandler.run_wsgi         wsgi.werkzeug_run
werkzeug.serving                       WSGIRequestHandler.send_response    wsgi.status
waitress.task                          WSGITask.execute                    wsgi.waitress_execute
waitress.task                          Task.build_response_header          wsgi.waitress_status
gevent.pywsgi                          WSGIHandler.handle_one_response     wsgi.gevent_response
gevent.pywsgi                          WSGIHandler.start_response          wsgi.status
flask.app                              Flask.__call__                      wsgi.application
flask.ctx                              AppContext.match_request?           wsgi.flask_route
flask.ctx                              RequestContext.match_request?       wsgi.flask_route
django.core.handlers.wsgi              WSGIHandler.__call__                wsgi.application
django.core.handlers.base              BaseHandler.resolve_request         wsgi.django_route
# Requests: others
aiohttp.web_protocol                   RequestHandler._handle_request      aio.aiohttp_handle
grpc._server                           _unary_response_in_pool             rpc.in_pool
grpc._server                           _stream_response_in_pool            rpc.in_pool
grpc.aio._server                       Server.add_generic_rpc_handlers     rpc.aio_handlers
grpc.aio._server                       Server.add_registered_method_handlers?  rpc.aio_registered
# A request's environment
opentelemetry.instrumentation.auto_instrumentation  execl                  start.keep_path
# Work
"""


def rows():
    """(module, attribute, kind) of each line."""
    lines = (line.split() for line in TABLE.splitlines())
    return [tuple(line) for line in lines if len(line) == 3 and line[0] != "#"]
