"""An event loop that serves several clients at once; its requests are known by their connections alone."""

import asyncio
import concurrent.futures
import json
import os
import socket
import threading
import time

from parts import call_itself, compute, facts, sleep

#: The table of situations has the same one.
PORT = 21481
REQUESTS = 120


def client(is_asking):
    """Two threads ask all the time for what is quick, and this one for the requests that may be hit."""

    def connect():
        return socket.create_connection(("127.0.0.1", PORT))

    def ask(connection, word):
        connection.sendall(word + b"\n")
        connection.recv(64)

    def hurry():
        connection = connect()
        while True:
            ask(connection, b"quick")
            time.sleep(0.006)

    for _ in range(2):
        threading.Thread(target=hurry, daemon=True).start()
    connection = connect()
    for number in range(REQUESTS):
        ask(connection, b"hit" if is_asking and number % 6 == 3 else b"usual")
        time.sleep(0.002)
    os._exit(0)


def serve(ms, is_faulty, hit):
    """Serves until the client ends. `hit(ms)` is awaited in some requests."""

    async def handle(reader, writer):
        while line := await reader.readline():
            compute(0.2)
            if line == b"hit\n":
                await hit(ms)
            writer.write(b"done\n")
            await writer.drain()
        writer.close()

    async def main():
        server = await asyncio.start_server(handle, "127.0.0.1", PORT)
        child = os.fork()
        if child == 0:
            call_itself("client")
            client(is_faulty)
        await asyncio.get_running_loop().run_in_executor(None, os.waitpid, child, 0)
        server.close()

    asyncio.run(main())
    with open(os.environ["E2E_BOOK"], "w") as book:
        json.dump(facts, book)
    os._exit(0)


def worker(ms, is_faulty):
    """A thread of a pool has the work, and sleeps."""
    pool = concurrent.futures.ThreadPoolExecutor(1, initializer=call_itself, initargs=("embedder",))

    async def hit(ms):
        await asyncio.get_running_loop().run_in_executor(pool, sleep, ms)

    pool.submit(sleep, 0).result()
    serve(ms, is_faulty, hit)


def peer(ms, is_faulty):
    """Another process answers late."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        call_itself("reranker")
        while theirs.recv(1):
            sleep(ms)
            theirs.send(b"x")
        os._exit(0)
    facts["reranker_pid"] = child
    theirs.close()
    ours.setblocking(False)

    async def hit(_):
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(ours, b"x")
        await loop.sock_recv(ours, 1)

    serve(ms, is_faulty, hit)


KINDS = {"loop-worker": worker, "loop-peer": peer}
