"""Computes with torchvision what `tests/torchvision.rs` compares with: `python3 torchvision_reference.py
FOLDER`.

Reads FOLDER/picture.jpg; writes weights.safetensors (a resnet50 with random weights) and
reference.safetensors (`prepared`: the picture as the model takes it, `logits`: what the model says). It
trains nothing.
"""

import pathlib
import sys

import safetensors.torch
import torch
import torchvision
from PIL import Image
from torchvision import transforms

folder = pathlib.Path(sys.argv[1])
torch.manual_seed(1)
torch.set_num_threads(1)

prepare = transforms.Compose(
    [
        transforms.Resize(256),
        transforms.CenterCrop(224),
        transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ]
)
prepared = prepare(Image.open(folder / "picture.jpg").convert("RGB")).unsqueeze(0)

model = torchvision.models.resnet50(weights=None)
for module in model.modules():
    # As initialised, every normalisation is the same, and two of them confused would change nothing.
    if isinstance(module, torch.nn.BatchNorm2d):
        torch.nn.init.uniform_(module.weight, 0.2, 0.6)
        torch.nn.init.uniform_(module.bias, -0.2, 0.2)
        torch.nn.init.uniform_(module.running_mean, -0.2, 0.2)
        torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
model.eval()
with torch.no_grad():
    logits = model(prepared)

safetensors.torch.save_file(model.state_dict(), folder / "weights.safetensors")
safetensors.torch.save_file(
    {"prepared": prepared.contiguous(), "logits": logits.contiguous()}, folder / "reference.safetensors"
)
