"""Marks three requests as any Python program would: the module is imported by its name and nothing is set up."""

import guestscope

assert guestscope.available
for number in range(1, 4):
    with guestscope.request("classify", number):
        with guestscope.phase("preprocess"):
            sum(range(1000))
        with guestscope.phase("inference"):
            sum(range(1000))
