"""vLLM: its requests in the API server, the engine's process and the workers.

In the API server, the phase `generate` is the time that a request waits for the engine. The engine's part is
an `engine request` below it, in the same trace: `waiting` to be scheduled, `prefill` to its first token,
`decode` to its last. These three are on no thread, since a step works for many requests and is charged to
none. The work of steps is in the roots `engine step` and, in the workers, `worker step`. Both of one batch
share a trace, whose id follows from values that both processes have.
"""

import functools
import hashlib
import itertools

from .. import hops, phases, requests
from ..marker import marker
from . import work

_library = marker._library
_open, _live = marker._open, marker._live
#: Attribute in which a request of the API server holds our header, beside vLLM's own.
_KEY = "guestscope"
#: Most requests in the engine that are followed at once.
_MOST = 1_024
_numbers = itertools.count(1)


class _Generation:
    """What `hops.stream` begins for a generator of the API server."""

    __slots__ = ("_name",)

    def __init__(self, name):
        self._name = phases.encode(name)

    def begin(self):
        return _library.guestscope_begin_from(phases.SOURCE, self._name, len(self._name), 0)

    def rename(self):
        pass


def _nothing():
    pass


def generate(original, site):
    """`AsyncLLM.generate` and `encode`: one phase from the first item asked for to the last."""
    generation = _Generation(site.name)

    def begun(args, kwargs):
        return hops.stream(original(*args, **kwargs), generation, _nothing), lambda step: step

    return phases.relaying(original, begun)


def render(original, site):
    """A prompt is tokenised."""
    return phases.coroutine(original, "render")


def _give_header(request):
    """Puts the innermost open phase's header beside the request's own. Returns what was there, None where
    nothing was done."""
    try:
        chain = _open.get()
        header = marker._header(chain[-1] if chain and chain[-1] in _live else 0)
        if header is None:
            return None
        before = (request.trace_headers,)
        request.trace_headers = dict(before[0] or {}, **{_KEY: header})
        return before
    except Exception as error:
        work.failed("vllm", error)
        return None


def hand_over_async(original, site):
    """The API server passes a request to the engine's process, encoding it during this call."""

    @functools.wraps(original)
    async def add_request_async(self, request, *args, **kwargs):
        before = _give_header(request)
        try:
            return await original(self, request, *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            if before is not None:
                (request.trace_headers,) = before

    return add_request_async


def hand_over(original, site):
    @functools.wraps(original)
    def add_request(self, request, *args, **kwargs):
        before = _give_header(request)
        try:
            return original(self, request, *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            if before is not None:
                (request.trace_headers,) = before

    return add_request


class _Followed:
    """A request in the engine. Its phases are left, but for the moments in which one ends and another
    begins."""

    __slots__ = ("request", "root", "phase", "is_at")

    def __init__(self, request, header):
        self.request, self.is_at = request, b"waiting"
        name = b"engine request"
        self.root = _library.guestscope_begin_from(phases.SOURCE, name, len(name), next(_numbers))
        around = requests.joined(header)
        if around is not None and work.is_root(self.root):
            _library.guestscope_context(self.root, *around)
        self.phase = _library.guestscope_first(self.root, self.is_at, len(self.is_at))
        self._leave()

    def _leave(self):
        _library.guestscope_leave(self.phase)
        _library.guestscope_leave(self.root)

    def _enter(self):
        _library.guestscope_enter(self.root)
        _library.guestscope_enter(self.phase)

    def goes_on(self, name):
        self._enter()
        self.is_at = name
        self.phase = _library.guestscope_next(self.phase, name, len(name))
        self._leave()

    def end(self):
        self._enter()
        _library.guestscope_end_both(self.phase, self.root)


#: By the engine's own number of the request.
_followed = {}


def _take_header(request):
    """Removes what `_give_header` added, so that vLLM does not pass it on any further."""
    headers = getattr(request, "trace_headers", None)
    if not headers or _KEY not in headers:
        return None
    rest = {key: value for key, value in headers.items() if key != _KEY}
    request.trace_headers = rest or None
    return headers[_KEY]


def _arrived(request):
    header = _take_header(request)
    # Further chunks of a streamed input have the number of the first.
    if request.request_id in _followed:
        return
    if len(_followed) >= _MOST:
        work.left_out("vllm", "over 1,024 requests at once")
        return
    _followed[request.request_id] = _Followed(request, header)


def _scheduled(output):
    for new in output.scheduled_new_reqs:
        followed = _followed.get(new.req_id)
        if followed is not None and followed.is_at == b"waiting":
            followed.goes_on(b"prefill")
    step = phases.inside("engine")
    trace = _trace(output) if work.is_root(step) else None
    if trace is not None:
        work.join(step, trace)


def _advanced():
    over = []
    for number, followed in _followed.items():
        request = followed.request
        if request.is_finished():
            over.append(number)
        elif followed.is_at == b"prefill" and request.num_output_tokens:
            followed.goes_on(b"decode")
    for number in over:
        _followed.pop(number).end()


def _trace(output):
    """A request of the batch, and its progress. None if the batch is empty."""
    if not output.num_scheduled_tokens:
        return None
    try:
        if output.scheduled_new_reqs:
            first = output.scheduled_new_reqs[0]
            number, computed = first.req_id, first.num_computed_tokens
        else:
            cached = output.scheduled_cached_reqs
            number, computed = cached.req_ids[0], cached.num_computed_tokens[0]
    except Exception as error:
        # Its steps are phases all the same.
        work.failed("vllm", error)
        return None
    text = "guestscope vllm %s %d %d" % (number, computed, output.total_num_scheduled_tokens)
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


def _after(original, then):
    """Calls `then(arguments, result)` after each call, without changing it."""

    @functools.wraps(original)
    def wrapper(*args, **kwargs):
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        try:
            then(args, result)
        except Exception as error:
            work.failed("vllm", error)
        return result

    return wrapper


def arrives(original, site):
    @functools.wraps(original)
    def add_request(self, request, *args, **kwargs):
        try:
            _arrived(request)
        except Exception as error:
            work.failed("vllm", error)
        try:
            return original(self, request, *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise

    return add_request


def schedule(original, site):
    return _after(phases.sync(original, "schedule"), lambda args, output: _scheduled(output))


def output(original, site):
    return _after(phases.sync(original, "output"), lambda args, result: _advanced())


def finish(original, site):
    """Requests that are aborted."""
    return _after(original, lambda args, result: _advanced())


def _name(scheduled):
    """By what the scheduler gave each request: one token continues it, more are of its prompt."""
    counts = scheduled.num_scheduled_tokens.values()
    if not counts:
        return "no tokens"
    has_prompts = bool(scheduled.scheduled_new_reqs) or max(counts) > 1
    if has_prompts and min(counts) == 1 and len(counts) > len(scheduled.scheduled_new_reqs):
        return "prefill and decode"
    return "prefill" if has_prompts else "decode"


#: The batch that the model had last, as `_trace` makes it: the next sampling belongs to it.
_batch = [None]


def _begin_step(name):
    """Returns the tokens to be ended. Where this is the engine's process, `engine step` is around it."""
    token = phases.begin(name)
    if not work.is_root(token):
        return (token,)
    phases.replace(token, "worker step")
    if _batch[0] is not None:
        work.join(token, _batch[0])
    return phases.begin(name), token


def _around(original, begin):
    @functools.wraps(original)
    def wrapper(*args, **kwargs):
        tokens = ()
        try:
            tokens = begin(args, kwargs)
        except Exception as error:
            work.failed("vllm", error)
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise
        finally:
            for token in tokens:
                phases.end(token)

    return wrapper


def execute(original, site):
    """A batch, in the process that has the model."""

    def begin(args, kwargs):
        _batch[0] = None
        if kwargs.get("dummy_run"):
            return ()
        scheduled = args[1] if len(args) > 1 else kwargs["scheduler_output"]
        _batch[0] = _trace(scheduled)
        return _begin_step(_name(scheduled))

    return _around(original, begin)


def sample(original, site):
    return _around(original, lambda args, kwargs: _begin_step("sample"))


def warm_up(original, site):
    """Dummy runs to measure memory and to compile, before the first request."""
    return phases.outermost(original, "warm-up", "warm-up")


def wait(original, site):
    """The engine waits for its workers: a phase only inside a step, not at the engine's start."""

    def begin(args, kwargs):
        return (phases.begin("wait for workers"),) if phases.inside("engine") else ()

    return _around(original, begin)
