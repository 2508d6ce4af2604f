"""Clients of grpc_app.py: `grpc_client.py PORT CLIENTS REQUESTS` shares the requests
among clients that wait for each answer.

A line for each: its number, which is its trace as well, and when it began and ended on CLOCK_MONOTONIC, ns.
"""

import itertools
import os
import sys
import threading
import time

import grpc

PORT, CLIENTS, REQUESTS = (int(word) for word in sys.argv[1:4])
numbers, lines = itertools.count(1), []


def client():
    # Each client has its own connection, as clients on different machines do.
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel("127.0.0.1:%d" % PORT, options) as channel:
        grpc.channel_ready_future(channel).result(timeout=60)
        call = channel.unary_unary("/test.Service/predict")
        for number in iter(lambda: next(numbers), None):
            if number > REQUESTS:
                return
            metadata = (("traceparent", "00-%032x-%016x-01" % (number, number)),)
            begin_ns = time.monotonic_ns()
            call(b"%d" % number, timeout=60, metadata=metadata)
            lines.append("%d %d %d" % (number, begin_ns, time.monotonic_ns()))


# Real-time priority, inherited by threads: the server cannot know of time that a client waits for a CPU.
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
clients = [threading.Thread(target=client) for _ in range(CLIENTS)]
for thread in clients:
    thread.start()
for thread in clients:
    thread.join()
print("\n".join(lines))
