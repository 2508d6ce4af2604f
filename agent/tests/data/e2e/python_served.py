"""A server without marks, and its client: 20 requests over the standard library's WSGI server, one of which
fails."""

import http.client
import threading
from wsgiref.simple_server import WSGIRequestHandler, make_server

REQUESTS = 20


class Quiet(WSGIRequestHandler):
    def log_message(self, *words):
        pass


def application(environ, start):
    status = "503 Service Unavailable" if environ["PATH_INFO"] == "/7" else "200 OK"
    start(status, [("Content-Type", "text/plain")])
    return [b"answer"]


server = make_server("127.0.0.1", 0, application, handler_class=Quiet)
thread = threading.Thread(target=server.serve_forever)
thread.start()
for number in range(REQUESTS):
    client = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    client.request("GET", "/%d?password=secret" % number)
    client.getresponse().read()
    client.close()
server.shutdown()
thread.join()
