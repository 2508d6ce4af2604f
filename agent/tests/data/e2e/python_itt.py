"""Ranges of torch.profiler.itt around a convolution, which oneDNN computes."""

import torch

torch.set_num_threads(2)
model = torch.nn.Conv2d(64, 64, 3, padding=1).eval()
image = torch.randn(1, 64, 56, 56)
with torch.inference_mode():
    for _ in range(40):
        torch.profiler.itt.range_push("step")
        model(image)
        torch.profiler.itt.range_pop()
