"""Stands in for the marker library: records each call of the hooks as a line, which `take` returns.

Phases are called by their numbers (`r1` a request, `p1` a phase), threads by the order in which they appear.
"""

import os
import sys
import threading

import guestscope


class Recorder:
    def __init__(self):
        self.lines, self.names, self.threads, self.inside = [], {}, {}, {}
        self.lock = threading.RLock()

    def note(self, text):
        with self.lock:
            thread = self.threads.setdefault(threading.get_ident(), "t%d" % (len(self.threads) + 1))
            self.lines.append("%s %s" % (thread, text))

    def moved(self, token, by):
        inside = self.inside.setdefault(threading.get_ident(), [])
        if by > 0:
            inside.append(token)
        elif token in inside:
            inside.remove(token)

    def begun(self, kind, source, name, length, number):
        with self.lock:
            token = (len(self.names) + 1) << 18
            self.names[token] = "%s%d" % (kind, token >> 18)
            word = {"r": "request", "p": "begin"}[kind] if source == 1 else "otel"
            text = "%s %s %s" % (word, self.names[token], name[:length].decode())
            self.note(text + (" #%d" % number if number else ""))
            self.moved(token, 1)
            return token

    def of(self, token):
        return self.names.get(token, "?%d" % token)

    def guestscope_begin_from(self, source, name, length, number):
        return self.begun("p", source, name, length, number)

    def guestscope_request_from(self, source, name, length, number, scheduled_ns):
        return self.begun("r", source, name, length, number)

    def guestscope_begin(self, name, length, number):
        return self.begun("p", 1, b"marker " + name, length + 7, number)

    def guestscope_request(self, name, length, number, scheduled_ns):
        return self.begun("r", 1, b"marker " + name, length + 7, number)

    def guestscope_rename(self, token, name, length, status):
        text = "rename %s %s" % (self.of(token), name[:length].decode())
        self.note(text + (" %d" % status if status else ""))

    def guestscope_end(self, token):
        self.note("end %s" % self.of(token))
        self.moved(token, -1)

    def guestscope_leave(self, token):
        self.note("leave %s" % self.of(token))
        self.moved(token, -1)

    def guestscope_enter(self, token):
        self.note("enter %s" % self.of(token))
        self.moved(token, 1)

    def joined(self, word, token, name, length):
        with self.lock:
            new = (len(self.names) + 1) << 18
            self.names[new] = "p%d" % (new >> 18)
            self.note("%s %s %s %s" % (word, self.of(token), self.of(new), name[:length].decode()))
            self.moved(new, 1)
            return new

    def guestscope_first(self, token, name, length):
        return self.joined("first", token, name, length)

    def guestscope_next(self, token, name, length):
        self.moved(token, -1)
        return self.joined("next", token, name, length)

    def guestscope_end_both(self, inner, outer):
        self.note("ends %s %s" % (self.of(inner), self.of(outer)))
        self.moved(inner, -1)
        self.moved(outer, -1)

    def guestscope_context(self, token, trace, span):
        self.note("joins %s %s" % (self.of(token), trace.hex()[:8]))

    def guestscope_parent(self, token, trace, span):
        self.note("below %s %s" % (self.of(token), span.hex()[-2:]))

    def guestscope_traceparent(self, token, text, size):
        return 55 if self.inside.get(threading.get_ident()) else 0

    def guestscope_tell(self, source, text, length):
        self.note("tell %s" % text[:length].decode())

    def take(self):
        with self.lock:
            lines, self.lines[:] = list(self.lines), []
            return lines


recorder = Recorder()
guestscope._library = recorder
guestscope.available = True
os.environ["GUESTSCOPE_PYTHON"] = "auto"

import guestscope_sources  # noqa: E402

guestscope_sources.start(os.environ)


def check(what, *expected):
    """Asserts that these are the lines since the last check."""
    lines = recorder.take()
    if lines != list(expected):
        print("%s:\n  expected %s\n  was      %s" % (what, "\n           ".join(expected), "\n           ".join(lines)))
        sys.exit(1)


def forget():
    recorder.take()
