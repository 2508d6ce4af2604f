"""MLCommons LoadGen: a request `query` for each sample, with the sample's id as its number, from the call
that issues it to QuerySamplesComplete.

The issuing thread is inside the first sample of the call until the call returns; it leaves the others. The
work of other threads for a sample is not charged to it, since LoadGen does not know which thread works on
which sample.
"""

import functools
import os
from _thread import get_ident

from .. import phases
from . import work

# An offline run issues all its samples at once.
MOST = 10_000
_NAME = b"query"
_library = work._library
# By sample id: the token, and the thread that is inside (0: none). A process has one LoadGen.
_queries = {}


def _issue(samples):
    """Begins a request for each sample, and leaves all but the first, whose id is returned."""
    first = None
    for sample in samples:
        number = int(sample.id)
        if len(_queries) >= MOST:
            work.left_out("mlperf_loadgen", "more than %d open samples" % MOST)
            break
        # The number 0 means that there is none.
        token = _library.guestscope_request_from(phases.SOURCE, _NAME, len(_NAME), number, 0)
        if first is None:
            first = number
            _queries[number] = token, get_ident()
        else:
            _library.guestscope_leave(token)
            _queries[number] = token, 0
    return first


def _returned(first):
    token, thread = _queries.get(first, (0, 0))
    if token and thread == get_ident():
        _queries[first] = token, 0
        _library.guestscope_leave(token)


def _issuing(issue):
    @functools.wraps(issue)
    def issue_queries(samples, *args, **kwargs):
        first = None
        try:
            first = _issue(samples)
        except Exception as error:
            work.failed("mlperf_loadgen", error)
        try:
            return issue(samples, *args, **kwargs)
        finally:
            if first is not None:
                _returned(first)

    return issue_queries


def _completed(responses):
    for response in responses:
        token, thread = _queries.pop(int(response.id), (0, 0))
        if token and thread != get_ident():
            # If another thread is inside, it no longer is.
            _library.guestscope_enter(token)
        if token:
            _library.guestscope_end(token)


def library(module):
    """The module is C++ and has only functions, which are replaced."""
    for name in ("ConstructSUT", "ConstructFastSUT"):
        construct = getattr(module, name, None)
        if construct is not None:
            setattr(module, name, _constructing(construct))
    module.QuerySamplesComplete = _completing(module.QuerySamplesComplete)


def _constructing(construct):
    @functools.wraps(construct)
    def replacement(issue, *args, **kwargs):
        return construct(_issuing(issue) if callable(issue) else issue, *args, **kwargs)

    return replacement


def _completing(complete):
    @functools.wraps(complete)
    def QuerySamplesComplete(responses, *args, **kwargs):
        try:
            _completed(responses)
        except Exception as error:
            work.failed("mlperf_loadgen", error)
        return complete(responses, *args, **kwargs)

    return QuerySamplesComplete


os.register_at_fork(after_in_child=_queries.clear)
