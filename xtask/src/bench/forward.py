"""Inference of a ResNet of 18 layers with PyTorch, as anybody writes it: `forward.py REQUESTS` prints
requests per second."""

import json
import sys
import time

import torch
from models import ResNet

torch.set_num_threads(1)
model, picture = ResNet().eval(), torch.randn(1, 3, 128, 128)
with torch.inference_mode():
    for _ in range(5):
        model(picture)
    begin = time.perf_counter()
    for _ in range(int(sys.argv[1])):
        model(picture)
    took = time.perf_counter() - begin
print(json.dumps({"requests_per_s": int(sys.argv[1]) / took}))
