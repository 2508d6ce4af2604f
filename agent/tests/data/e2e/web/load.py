"""Starts an unmodified server, sends it requests over kept connections, ends it, and prints what a client saw
of each request.

`load.py PORT CLIENTS REQUESTS -- COMMAND...`: each client sends so many, every tenth of them with a fault
that the server's handler injects by itself (see the applications). A line of JSON for each: path, status,
begin and end on CLOCK_MONOTONIC.
"""

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time

PORT, CLIENTS, REQUESTS = (int(word) for word in sys.argv[1:4])
COMMAND = sys.argv[sys.argv.index("--") + 1 :]


def wait_for_the_server(server):
    for _ in range(1200):
        if server.poll() is not None:
            sys.exit("the server ended: %s" % server.returncode)
        try:
            return socket.create_connection(("127.0.0.1", PORT), 1).close()
        except OSError:
            time.sleep(0.05)
    sys.exit("the server does not listen")


def client(number, lines):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
    for at in range(REQUESTS):
        kind = "slow" if at % 10 == 9 else "items" if at % 2 else "sync"
        path = "/%s/%d" % (kind, number * REQUESTS + at)
        for attempt in range(3):
            begin_ns = time.monotonic_ns()
            try:
                connection.request("GET", path)
                response = connection.getresponse()
                response.read()
                break
            except (ConnectionError, http.client.HTTPException):
                # The server closed a kept connection, as a sync worker does after each answer.
                connection.close()
        end_ns = time.monotonic_ns()
        if response.getheader("connection", "").lower() == "close":
            connection.close()
        lines.append({"kind": kind, "path": path, "status": response.status, "begin_ns": begin_ns, "end_ns": end_ns})
    connection.close()


def main(client=client):
    server = subprocess.Popen(COMMAND, stdout=sys.stderr)
    lines = []
    try:
        wait_for_the_server(server)
        threads = [threading.Thread(target=client, args=(number, lines)) for number in range(CLIENTS)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        # Work after an answer, such as closing the iterator, is part of the request.
        time.sleep(0.3)
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
    for line in lines:
        print(json.dumps(line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
