"""Waits for time, for another process, for a peer."""

import asyncio
import ctypes
import os
import select
import signal
import socket
import struct
import subprocess
import time

from parts import Child, Situation, Worker, burn, call_itself, facts, libc, sleep


class Sleep(Situation):
    """It sleeps itself."""

    def hit(self, ms):
        sleep(ms)


class BackOff(Situation):
    """It sleeps again and again until somebody is ready."""

    def hit(self, ms):
        end = time.monotonic() + ms / 1e3
        while time.monotonic() < end:
            sleep(1)


class WaitChild(Situation):
    """It waits for the end of a child."""

    def before(self, ms):
        self.pid = os.fork()
        if self.pid == 0:
            call_itself("exporter")
            sleep(ms)
            os._exit(0)

    def hit(self, ms):
        os.waitpid(self.pid, 0)


class Program(Situation):
    """It runs another program and waits for its end."""

    def hit(self, ms):
        subprocess.run(["sleep", "%.3f" % (ms / 1e3)], check=True)


class SignalWait(Situation):
    """It waits for a signal that does not come."""

    def hit(self, ms):
        signal.sigtimedwait([signal.SIGUSR2], ms / 1e3)


class Pipe(Situation):
    """A worker process answers late."""

    def __init__(self):
        self.reader, self.writer = os.pipe()
        self.worker = Child("tokenizer", self.answer)

    def answer(self, ms):
        sleep(ms)
        os.write(self.writer, b"x")

    def hit(self, ms):
        self.worker.ask(ms)
        os.read(self.reader, 1)

    def spared(self):
        self.hit(0.1)


class PolledPipe(Pipe):
    """The same, seen by poll."""

    def hit(self, ms):
        self.worker.ask(ms)
        poll = select.poll()
        poll.register(self.reader, select.POLLIN)
        poll.poll()
        os.read(self.reader, 1)


class FullPipe(Situation):
    """A process that takes the answers does not read."""

    def __init__(self):
        self.reader, self.writer = os.pipe()
        self.taker = Child("logger", self.take)

    def take(self, ms):
        sleep(ms)
        left = 1 << 18
        while left:
            left -= len(os.read(self.reader, left))

    def hit(self, ms):
        self.taker.ask(ms)
        text = memoryview(bytes(1 << 18))
        while text:
            text = text[os.write(self.writer, text):]

    def spared(self):
        self.hit(0.1)


class Peer(Situation):
    """A server on another socket answers late."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        facts["port"] = self.listener.getsockname()[1]
        self.other = None
        self.server = Child("reranker", self.answer)
        self.socket = socket.create_connection(self.listener.getsockname())
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def answer(self, ms):
        if self.other is None:
            self.other = self.listener.accept()[0]
        self.other.recv(1)
        sleep(ms)
        self.other.send(b"y")

    def hit(self, ms):
        self.server.ask(ms)
        self.socket.send(b"x")
        self.socket.recv(1)

    def spared(self):
        self.hit(0.1)


class FullSocket(Situation):
    """The peer does not take what is sent."""

    def __init__(self):
        self.socket, self.other = socket.socketpair()
        self.taker = Child("gateway", self.take)

    def take(self, ms):
        sleep(ms)
        left = 1 << 20
        while left:
            left -= len(self.other.recv(left))

    def hit(self, ms):
        self.taker.ask(ms)
        self.socket.sendall(bytes(1 << 20))

    def spared(self):
        self.hit(0.1)


class UnixPeer(Peer):
    """The same over a socket of the machine."""

    def __init__(self):
        self.socket, self.other = socket.socketpair()
        self.server = Child("reranker", self.answer)


class Stranger(Situation):
    """The server was not started by the program: `beside` is it."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect("beside.socket")

    def hit(self, ms):
        self.socket.send(b"%08.3f" % ms)
        self.socket.recv(1)

    def spared(self):
        self.hit(0.1)

    def finish(self):
        self.socket.close()


class UdpTimeout(Situation):
    """Nobody answers a datagram, as a name server that is down."""

    def __init__(self):
        self.deaf = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.deaf.bind(("127.0.0.1", 0))
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def hit(self, ms):
        self.socket.settimeout(ms / 1e3)
        self.socket.sendto(b"who is it", self.deaf.getsockname())
        try:
            self.socket.recv(100)
        except socket.timeout:
            pass


class KernelTimeout(UdpTimeout):
    """The same with the socket's own time limit."""

    def hit(self, ms):
        self.socket.setblocking(True)
        limit = struct.pack("ll", 0, int(ms * 1e3))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self.socket.sendto(b"who is it", self.deaf.getsockname())
        try:
            self.socket.recv(100)
        except OSError:
            pass


class LoopSleeps(Situation):
    """An event loop has nothing to do but to wait for a timer."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()

    def hit(self, ms):
        self.loop.run_until_complete(asyncio.sleep(ms / 1e3))

    def spared(self):
        self.loop.run_until_complete(asyncio.sleep(0))


def stopper(pid):
    """A process that stops another one for a while."""

    def stop(ms):
        os.kill(pid, signal.SIGSTOP)
        sleep(ms)
        os.kill(pid, signal.SIGCONT)

    return Child("stopper", stop)


class Stopped(Situation):
    """A process stops it by a signal for a while."""

    def __init__(self):
        self.stopper = stopper(os.getpid())

    def hit(self, ms):
        self.stopper.ask(ms)
        burn(6)

    def spared(self):
        burn(6)


class StoppedInCall(Stopped):
    """The same while it makes quick system calls."""

    def __init__(self):
        super().__init__()
        self.nowhere = os.open("/dev/null", os.O_WRONLY)

    def hit(self, ms):
        self.stopper.ask(ms)
        for _ in range(10_000):
            os.write(self.nowhere, b"x")

    def spared(self):
        for _ in range(10_000):
            os.write(self.nowhere, b"x")


class Event(Situation):
    """A thread of its own counts an event up late."""

    def __init__(self):
        self.event = libc.eventfd(0, 0)
        self.scorer = Worker("scorer", self.answer)

    def answer(self, ms):
        burn(ms)
        os.write(self.event, struct.pack("Q", 1))

    def hit(self, ms):
        self.scorer.ask(ms)
        os.read(self.event, 8)

    def spared(self):
        self.hit(0.1)


class Messages(Situation):
    """A worker process puts its message into a queue late."""

    def __init__(self):
        self.queue = libc.msgget(0, 0o1600)
        self.worker = Child("ranker", self.answer)

    def answer(self, ms):
        sleep(ms)
        libc.msgsnd(self.queue, struct.pack("l", 1) + b"x", 1, 0)

    def hit(self, ms):
        self.worker.ask(ms)
        libc.msgrcv(self.queue, ctypes.create_string_buffer(64), 1, 0, 0)

    def spared(self):
        self.hit(0.1)

    def finish(self):
        libc.msgctl(self.queue, 0, None)


class StoppedPeer(Situation):
    """The process on the other side is stopped by a signal meanwhile."""

    def __init__(self):
        self.here, there = socket.socketpair()
        self.peer = os.fork()
        if self.peer == 0:
            self.here.close()
            call_itself("reranker")
            while there.recv(1):
                burn(1)
                there.send(b"y")
            os._exit(0)
        there.close()
        facts["reranker_pid"] = self.peer
        self.stopper = stopper(self.peer)

    def before(self, ms):
        self.stopper.ask(ms)
        sleep(3)

    def hit(self, ms):
        self.here.send(b"x")
        self.here.recv(1)

    def spared(self):
        self.hit(0)


class SmallWrites(Situation):
    """A message in two writes: the second waits for the acknowledgement of the first, for 40 ms."""

    def __init__(self):
        listener = socket.create_server(("127.0.0.1", 0))
        peer = os.fork()
        if peer == 0:
            call_itself("features")
            self.serve(listener.accept()[0])
        facts["features_pid"] = peer
        self.peer = socket.create_connection(listener.getsockname())
        # A new connection acknowledges at once.
        for _ in range(30):
            self.spared()

    @staticmethod
    def serve(client):
        have = 0
        while True:
            part = client.recv(2)
            if not part:
                os._exit(0)
            have += len(part)
            if have == 2:
                client.send(b"y")
                have = 0

    def hit(self, ms):
        self.peer.send(b"x")
        self.peer.send(b"x")
        self.peer.recv(1)

    def spared(self):
        self.peer.send(b"xx")
        self.peer.recv(1)


KINDS = {
    "sleep": Sleep,
    "back-off": BackOff,
    "wait-child": WaitChild,
    "run-program": Program,
    "signal-wait": SignalWait,
    "pipe": Pipe,
    "poll-child": PolledPipe,
    "full-pipe": FullPipe,
    "peer": Peer,
    "unix-peer": UnixPeer,
    "full-socket": FullSocket,
    "stranger-peer": Stranger,
    "udp-timeout": UdpTimeout,
    "socket-timeout": KernelTimeout,
    "loop-sleeps": LoopSleeps,
    "stopped": Stopped,
    "stopped-in-call": StoppedInCall,
    "event": Event,
    "messages": Messages,
    "stopped-peer": StoppedPeer,
    "small-writes": SmallWrites,
}
