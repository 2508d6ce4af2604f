"""`situations.py KIND MS SEED fault|control [REQUESTS EVERY]`: requests, of which some meet a fault.

One request in EVERY is hit, for about MS milliseconds; none of the control. The file E2E_BOOK gets what the
judge has to know, as JSON. `situations.py beside KIND` is the stranger on the other side, started by others.
"""

import json
import os
import sys

import beside
import disk
import gpu
import groups
import hidden
import locks
import processor
import served
import waits
from parts import compute, facts

KINDS = {}
for module in (locks, waits, disk, processor, groups, gpu):
    KINDS.update(module.KINDS)


def serve(situation, ms, seed, is_faulty, requests, every):
    import guestscope

    assert guestscope.available
    for number in range(1, requests + 1):
        is_hit = is_faulty and (number + seed) % every == every // 2
        if is_hit:
            situation.before(ms)
        with guestscope.request("serve", number) as request:
            request.next("prepare")
            compute(1)
            request.next("work")
            if is_hit:
                situation.hit(ms)
            else:
                situation.spared()
            request.next("reply")
            compute(1)
        situation.after()


def main():
    kind = sys.argv[1]
    if kind == "beside":
        return beside.KINDS[sys.argv[2]]()
    ms, seed, is_faulty = float(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "fault"
    whole = {**hidden.KINDS, **gpu.WHOLE, **served.KINDS}
    if kind in whole:
        whole[kind](ms, is_faulty)
        return None
    requests, every = (int(word) for word in sys.argv[5:7] or ("72", "12"))
    situation = KINDS[kind]()
    serve(situation, ms, seed, is_faulty, requests, every)
    situation.finish()
    with open(os.environ["E2E_BOOK"], "w") as book:
        json.dump(facts, book)
    return None


main()
