"""vLLM's requests on their way: through the API server, the engine and a worker."""

import asyncio
from types import SimpleNamespace

from recorder import check, forget, recorder
import fakes  # noqa: F401
from guestscope_sources import requests
from guestscope_sources.hooks import vllm as hooks
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.core import EngineCore
from vllm.v1.engine.core_client import AsyncMPClient
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

forget()
HEADER = "00-%032x-%016x-01" % (0xA << 124, 7)


def new(number, headers=None):
    request = SimpleNamespace(request_id=number, trace_headers=headers, num_output_tokens=0, over=False, items=[1, 2])
    request.is_finished = lambda: request.over
    return request


def scheduled(new_ones=(), advances=(), **tokens):
    cached = [name for name in tokens if name not in new_ones]
    return SimpleNamespace(
        scheduled_new_reqs=[SimpleNamespace(req_id=name, num_computed_tokens=0) for name in new_ones],
        scheduled_cached_reqs=SimpleNamespace(req_ids=cached, num_computed_tokens=[5 for _ in cached]),
        num_scheduled_tokens=tokens,
        total_num_scheduled_tokens=sum(tokens.values()),
        advances=advances,
    )


def begun():
    return [line.split(" ", 3)[3] for line in recorder.take() if " begin " in line]


# The API server: the header goes with the request, beside what was there, and is gone from it afterwards.
client, request, seen = AsyncMPClient(), new("a", {"traceparent": "x"}), []


async def ask():
    steps = AsyncLLM(client).generate(request)
    seen.append(await steps.__anext__())
    error = ValueError("thrown in")
    seen.append(await steps.athrow(error) is error)
    seen.append([item async for item in steps])


hooks.marker._header = lambda token: HEADER
asyncio.run(ask())
assert seen == [1, True, [2]], seen
assert client.sent == {"traceparent": "x", "guestscope": HEADER}, client.sent
assert request.trace_headers == {"traceparent": "x"}
lines = recorder.take()
assert lines[0] == "t1 begin p1 generate" and lines[-1] == "t1 end p1", lines
assert not any(recorder.inside.values()), recorder.inside

# The engine: a request waits, has its prompt worked on, and is continued.
one, two = new("a", {"guestscope": HEADER}), new("b")
engine = EngineCore([scheduled(["a"], [one], a=40), scheduled([], [one], a=1)])
engine.scheduler.add_request(one)
assert one.trace_headers is None and engine.scheduler.requests == [None]
check(
    "arrives",
    "t1 begin p2 engine request #1",
    "t1 joins p2 a0000000",
    "t1 first p2 p3 waiting",
    "t1 leave p3",
    "t1 leave p2",
)
assert engine.step() == 7
check(
    "prefill",
    "t1 begin p4 engine step",
    "t1 begin p5 schedule",
    "t1 end p5",
    "t1 enter p2",
    "t1 enter p3",
    "t1 next p3 p6 prefill",
    "t1 leave p6",
    "t1 leave p2",
    "t1 joins p4 " + hooks._trace(scheduled(["a"], a=40)).hex()[:8],
    "t1 begin p7 prefill",
    "t1 rename p7 worker step",
    "t1 joins p7 " + hooks._trace(scheduled(["a"], a=40)).hex()[:8],
    "t1 begin p8 prefill",
    "t1 end p8",
    "t1 end p7",
    "t1 begin p9 output",
    "t1 end p9",
    "t1 enter p2",
    "t1 enter p6",
    "t1 next p6 p10 decode",
    "t1 leave p10",
    "t1 leave p2",
    "t1 end p4",
)
one.over = True
engine.step()
lines = recorder.take()
assert lines[-4:] == ["t1 enter p2", "t1 enter p10", "t1 ends p10 p2", "t1 end p11"], lines

# An aborted request ends without being scheduled.
engine.scheduler.add_request(two)
two.over = True
engine.scheduler.finish_requests(["b"], None)
lines = recorder.take()
assert " ends " in lines[-1] and not hooks._followed, lines

# The names of batches, in the process that has the model.
for output, name in (
    (scheduled(["a"], a=40), "prefill"),
    (scheduled(["a"], a=1), "prefill"),
    (scheduled([], a=1, b=1), "decode"),
    (scheduled(["c"], a=1, c=30), "prefill and decode"),
    (scheduled([], c=30), "prefill"),
    (scheduled([]), "no tokens"),
):
    assert GPUModelRunner().execute_model(scheduler_output=output) == 7
    assert begun() == [name, name], (output, name)
assert GPUModelRunner().sample_tokens(None) == 8
assert begun() == ["sample", "sample"]
assert GPUModelRunner().profile_run() == 9
check("warm-up", "t1 begin p%d warm-up" % len(recorder.names), "t1 end p%d" % len(recorder.names))

# Arguments of another shape are passed on all the same, and reported once.
odd = SimpleNamespace(trace_headers=None)
Scheduler([]).add_request(odd)
assert GPUModelRunner().execute_model(SimpleNamespace()) == 7
Scheduler([]).add_request(odd)
check("another shape", "t1 tell !vllm: AttributeError")

# A batch of vLLM before 0.10: its phases are there, its trace is not.
batch = scheduled([], a=1)
batch.scheduled_cached_reqs = [SimpleNamespace(req_id="a")]
assert GPUModelRunner().execute_model(batch) == 7
assert begun() == ["decode", "decode"]

# At most as many requests are followed as there is room for.
hooks._MOST = 2
several = [new("r%d" % number) for number in range(4)]
for request in several:
    Scheduler([]).add_request(request)
assert len(hooks._followed) == 2
assert "t1 tell !vllm: over 1,024 requests at once" in recorder.take()
for request in several:
    request.over = True
Scheduler([]).finish_requests([], None)
assert not hooks._followed and not any(recorder.inside.values()), recorder.inside

# Several prompts of one request: a task asks each for its item, and has not entered the request by itself.
request, ours = new("c"), requests.of_http("POST")
request.items = [1]


async def ask_both():
    both = [AsyncLLM(client).generate(request) for _ in range(2)]
    tasks = [asyncio.get_running_loop().create_task(steps.__anext__()) for steps in both]
    assert await asyncio.gather(*tasks) == [1, 1]
    for steps in both:
        assert [item async for item in steps] == []


recorder.take()
asyncio.run(requests.drive(ask_both(), ours))
lines = recorder.take()
begins = [number for number, line in enumerate(lines) if line.endswith(" generate")]
assert len(begins) == 2 and all(" enter r" in lines[number - 1] for number in begins), lines
assert lines[-1].startswith("t1 end r") and not any(recorder.inside.values()), lines
