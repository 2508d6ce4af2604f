"""Marks three requests as any Python program would: it imports the module by its name and sets nothing up."""

import guestscope

assert guestscope.available
for number in range(1, 4):
    with guestscope.request("classify", number):
        with guestscope.phase("preprocess"):
            sum(range(1000))
        with guestscope.phase("inference"):
            sum(range(1000))
