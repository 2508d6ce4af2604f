"""Servers under observation: `server.py KIND ADDRESS`, where KIND is threads, loop, marked or workers, and
ADDRESS a port or a path.

They speak as much of HTTP/1.1 as the tests ask for: /work/MS computes, /sleep/MS waits without keeping others
waiting, /block/MS keeps the whole thread, /stream/N sends N chunks 10 ms apart, /quit ends the server.
Nothing of guestscope is in them, but that `marked` is a loop whose handlers are tasks of their own and are
marked as the hooks of frameworks would.
"""

import asyncio
import http.server
import os
import socket
import sys
import threading
import time


def burn(ms):
    end = time.thread_time() + ms / 1000
    while time.thread_time() < end:
        pass


def answer(body):
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        what, number = (self.path[1:].split("/") + ["0"])[:2]
        if what == "work":
            burn(int(number))
        elif what in ("sleep", "block"):
            time.sleep(int(number) / 1000)
        if what == "stream":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n" % number.encode())
            for _ in range(int(number)):
                time.sleep(0.01)
                self.wfile.write(b"x")
        else:
            self.wfile.write(answer(b"done"))
        if what == "quit":
            self.close_connection = True
            threading.Thread(target=self.server.shutdown).start()

    def log_message(self, *_):
        pass


def mark_handler(serve):
    """Marks as source `python`, whose number is 1."""
    import guestscope

    library = guestscope._library

    async def marked(*words):
        token = library.guestscope_request_from(1, b"handler", 7, 0, 0)
        try:
            return await serve(*words)
        finally:
            library.guestscope_end(token)

    return marked


async def handle(writer, what, number, quit):
    if what == "work":
        burn(int(number))
    elif what == "block":
        time.sleep(int(number) / 1000)
    writer.write(answer(b"done"))
    if what == "quit":
        quit.set()


async def serve_in_tasks(reader, writer, quit):
    """Receives everything that has arrived before it handles the first of it."""
    marked = mark_handler(handle)
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        what, number = (head.split()[1].decode()[1:].split("/") + ["0"])[:2]
        await asyncio.create_task(marked(writer, what, number, quit))


async def serve_one(reader, writer, quit):
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        what, number = (head.split()[1].decode()[1:].split("/") + ["0"])[:2]
        if what == "work":
            burn(int(number))
        elif what == "block":
            time.sleep(int(number) / 1000)
        elif what == "sleep":
            await asyncio.sleep(int(number) / 1000)
        if what == "stream":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n" % number.encode())
            for _ in range(int(number)):
                await asyncio.sleep(0.01)
                writer.write(b"x")
        else:
            writer.write(answer(b"done"))
        await writer.drain()
        if what == "quit":
            quit.set()


async def loop(address, listening=None, serve_one=serve_one):
    quit = asyncio.Event()

    async def serve(reader, writer):
        try:
            await serve_one(reader, writer, quit)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    if listening:
        server = await asyncio.start_server(serve, sock=listening)
    elif address.isdigit():
        server = await asyncio.start_server(serve, "127.0.0.1", int(address))
    else:
        server = await asyncio.start_unix_server(serve, address)
    await quit.wait()
    server.close()


def workers(address):
    """Two processes, each with its own socket on the same port."""
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            listening = socket.socket()
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listening.bind(("127.0.0.1", int(address)))
            listening.listen()
            asyncio.run(loop(address, listening))
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def main():
    kind, address = sys.argv[1:3]
    if kind == "threads":
        server = http.server.ThreadingHTTPServer(("127.0.0.1", int(address)), Handler)
        # The last request ends before the process does.
        server.daemon_threads = False
        server.serve_forever()
    elif kind == "loop":
        asyncio.run(loop(address))
    elif kind == "marked":
        asyncio.run(loop(address, serve_one=serve_in_tasks))
    elif kind == "workers":
        workers(address)


main()
