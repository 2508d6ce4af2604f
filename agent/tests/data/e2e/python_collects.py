"""Requests of which every other one collects all garbage; and collections outside of any phase."""

import gc

import guestscope

for number in range(1, 5):
    gc.collect()
    with guestscope.request("serve", number) as request:
        request.next("work")
        gc.collect(0 if number % 2 else 2)
