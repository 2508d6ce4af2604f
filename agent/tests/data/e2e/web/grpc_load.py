"""`load.py` for gRPC: the same arguments, and a line of output for each call."""

import sys
import time

import grpc

import load


def client(number, lines):
    channel = grpc.insecure_channel("127.0.0.1:%d" % load.PORT)
    grpc.channel_ready_future(channel).result(timeout=60)
    for at in range(load.REQUESTS):
        kind = "slow" if at % 10 == 9 else "items" if at % 2 else "sync"
        call = channel.unary_unary("/pkg.Service/" + kind)
        begin_ns = time.monotonic_ns()
        status = 0 if call(b"x", timeout=60) == b"x" else 2
        end_ns = time.monotonic_ns()
        lines.append({"kind": kind, "status": status, "begin_ns": begin_ns, "end_ns": end_ns})
    channel.close()


if __name__ == "__main__":
    sys.exit(load.main(client))
