"""Marks requests whose phases join: one edge ends a phase and begins the next."""

import guestscope


def phases(of):
    for name in ("preprocess", "inference", "postprocess"):
        of.next(name)
        sum(range(1000))


for number in range(1, 4):
    with guestscope.request("classify", number) as request:
        phases(request)
with guestscope.phase("epoch") as epoch:
    phases(epoch)
