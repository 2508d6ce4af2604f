"""Calls `llama_decode` of llama.cpp: `llama_calls.py NOTE THREADS CALLS`. It makes NOTE.ready and begins when
NOTE.go exists. Each line of its output is a call: start, end, number and thread. Every tenth call of a thread
has the fault of `faults.py`."""

import os
import sys
import threading
import time

import llama_model
from faults import fault

note, threads, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
llama_model.write(note + ".gguf")
decoder = llama_model.Decoder(note + ".gguf")


def work():
    due, lines = [], []

    def inside():
        if due:
            fault(due.pop())
        return False

    context = decoder.context(inside)
    for number in range(1, calls + 1):
        decoder.clear(context)
        due.append(number)
        lines.append("%d %d %d %d" % (decoder.decode(context, [5]) + (number, threading.get_native_id())))
    with lock:
        print("\n".join(lines), flush=True)


lock = threading.Lock()
open(note + ".ready", "w").close()
while not os.path.exists(note + ".go"):
    time.sleep(0.01)
all_threads = [threading.Thread(target=work) for _ in range(threads)]
for thread in all_threads:
    thread.start()
for thread in all_threads:
    thread.join()
