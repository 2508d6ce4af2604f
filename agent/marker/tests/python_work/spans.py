"""The program's own spans: each is the thread's while it is current, wherever and in whatever order it
ends."""

import asyncio
import threading

from recorder import check, forget, recorder
import fakes  # noqa: F401
import guestscope
from opentelemetry import context, trace
from opentelemetry.sdk.trace import ConcurrentMultiSpanProcessor, TracerProvider

tracer = TracerProvider().get_tracer()
forget()


def on_another_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


with tracer.start_as_current_span("outer") as outer:
    with tracer.start_as_current_span("inner"):
        outer.name = "renamed"
check(
    "one within another",
    "t1 otel p1 outer",
    "t1 below p1 01",
    "t1 otel p2 inner",
    "t1 below p2 02",
    "t1 end p2",
    "t1 rename p1 renamed",
    "t1 end p1",
)

span = tracer.start_span("never current")
check("a start alone", "t1 otel p3 never current", "t1 below p3 03", "t1 leave p3")
span.end()
check("an end alone", "t1 enter p3", "t1 end p3")

span = tracer.start_span("now and then")
for _ in range(2):
    with trace.use_span(span):
        pass
check("current twice", "t1 otel p4 now and then", "t1 below p4 04", "t1 leave p4", *["t1 enter p4", "t1 leave p4"] * 2)
with tracer.start_as_current_span("stays open", end_on_exit=False) as open_span:
    pass
check("current once", "t1 otel p5 stays open", "t1 below p5 05", "t1 leave p5", "t1 enter p5", "t1 leave p5")
on_another_thread(open_span.end)
span.end()
check("ends of what is on no thread", "t2 enter p5", "t2 end p5", "t1 enter p4", "t1 end p4")

first, second = tracer.start_span("first"), tracer.start_span("second")
tokens = [context.attach(trace.set_span_in_context(span)) for span in (first, second)]
forget()
first.end()
check("out of order", "t1 leave p7", "t1 end p6", "t1 enter p7")
second.end()
for token in reversed(tokens):
    context.detach(token)
check("the other one", "t1 end p7")

span = tracer.start_span("handed over")
token = context.attach(trace.set_span_in_context(span))
forget()
on_another_thread(span.end)
check("ended elsewhere while it is current here")
context.detach(token)
check("it ends where it was", "t1 end p8")
with tracer.start_as_current_span("ended elsewhere") as span:
    on_another_thread(span.end)
forget()
with tracer.start_as_current_span("next"):
    pass
check("a direct one", "t1 otel p10 next", "t1 below p10 0a", "t1 end p10")


async def handle(name, steps):
    with tracer.start_as_current_span(name):
        for _ in range(steps):
            await asyncio.sleep(0)


async def driven():
    await asyncio.gather(*(guestscope.task(handle(name, 1), name=name, request=1) for name in "ab"))


asyncio.run(driven())
check(
    "requests take turns",
    "t1 request r11 marker a #1",
    "t1 otel p12 a",
    "t1 below p12 0b",
    "t1 leave p12",
    "t1 leave r11",
    "t1 request r13 marker b #1",
    "t1 otel p14 b",
    "t1 below p14 0c",
    "t1 leave p14",
    "t1 leave r13",
    "t1 enter r11",
    "t1 enter p12",
    "t1 end p12",
    "t1 end r11",
    "t1 enter r13",
    "t1 enter p14",
    "t1 end p14",
    "t1 end r13",
)
asyncio.run(handle("a task that nobody drives", 2))
check(
    "nobody's time",
    "t1 otel p15 a task that nobody drives",
    "t1 below p15 0d",
    "t1 leave p15",
    "t1 enter p15",
    "t1 end p15",
)

context.detach(context.attach(None))
TracerProvider(ConcurrentMultiSpanProcessor()).get_tracer().start_span("unseen").end()
check("processors on other threads", "t1 tell !opentelemetry: processors run on other threads")

from guestscope_sources.hooks import otel  # noqa: E402

otel.MOST = 1
kept, lost = tracer.start_span("kept"), tracer.start_span("one too many")
lost.end()
kept.end()
check(
    "more than are kept",
    "t1 otel p16 kept",
    "t1 below p16 0f",
    "t1 leave p16",
    "t1 tell !opentelemetry: more than 1 open spans",
    "t1 enter p16",
    "t1 end p16",
)
assert not otel._spans and not otel._attached and not otel._here.inside
assert not any(recorder.inside.values()), recorder.inside
