"""MLCommons LoadGen against torch: `loadgen.py QUERIES FOLDER [nvtx]`. One thread issues, two threads answer,
with `nvtx` inside ranges of the package nvtx."""

import contextlib
import os
import queue
import sys
import threading

import mlperf_loadgen
import torch
from models import ResNet

count, folder = int(sys.argv[1]), sys.argv[2]
os.makedirs(folder)
os.chdir(folder)
torch.set_num_threads(1)
has_ranges = sys.argv[3:] == ["nvtx"]
model, picture, waiting = ResNet(width=16).eval(), torch.randn(1, 3, 32, 32), queue.Queue()


def marked(name, number):
    if not has_ranges:
        return contextlib.nullcontext()
    import nvtx

    return nvtx.annotate(name, domain="harness", payload=number)


def answer():
    while True:
        sample = waiting.get()
        if sample is None:
            return
        with marked("answer", sample.id), torch.inference_mode():
            with marked("copy", sample.id):
                given = picture.clone()
            model(given)
        mlperf_loadgen.QuerySamplesComplete([mlperf_loadgen.QuerySampleResponse(sample.id, 0, 0)])


def issue(samples):
    with open("issued", "a") as file:
        for sample in samples:
            file.write("%d\n" % sample.id)
            waiting.put(sample)


threads = [threading.Thread(target=answer) for _ in range(2)]
for thread in threads:
    thread.start()
settings = mlperf_loadgen.TestSettings()
settings.scenario = mlperf_loadgen.TestScenario.Server
settings.mode = mlperf_loadgen.TestMode.PerformanceOnly
settings.server_target_qps = 50
settings.min_duration_ms = 0
settings.min_query_count = settings.max_query_count = count
under_test = mlperf_loadgen.ConstructSUT(issue, lambda: None)
library = mlperf_loadgen.ConstructQSL(count, count, lambda samples: None, lambda samples: None)
mlperf_loadgen.StartTest(under_test, library, settings)
mlperf_loadgen.DestroyQSL(library)
mlperf_loadgen.DestroySUT(under_test)
for _ in threads:
    waiting.put(None)
for thread in threads:
    thread.join()
