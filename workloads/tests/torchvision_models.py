"""Computes with torchvision's models what `tests/trained.rs` compares with: `python3 torchvision_models.py
MODEL`.

Needs torch, torchvision and numpy. MODEL is inception3, alexnet or resnet50. Weights are drawn by the rule of
src/infer/seeded.rs for models of convolutions, with seed 1 and torchvision's names; images are a pattern.
Prints a JSON list: of inception3 and alexnet all logits in evaluation mode, of resnet50 the losses of three
steps of gradient descent.
"""

import json
import sys

import numpy
import torch
import torchvision

from pytorch_reference import uniform

RATE = 0.01


def fill(model):
    """Every tensor by its name, the running statistics too."""
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            shape = tuple(tensor.shape)
            if len(shape) < 2:
                is_one = name.endswith((".running_var", ".weight"))
                value = 0.25 if name.endswith("bn3.weight") else 1.0 if is_one else 0.0
                tensor.copy_(torch.full(shape, value))
            else:
                fan_in = float(numpy.prod(shape[1:]))
                bound = numpy.float32(((6.0 if len(shape) == 4 else 1.0) / fan_in) ** 0.5)
                values = uniform(name, int(numpy.prod(shape)), -bound, bound)
                tensor.copy_(torch.from_numpy(values.reshape(shape)))
    return model


def images(count, side):
    """Images that all differ."""
    i, c, y, x = numpy.indices((count, 3, side, side))
    return torch.from_numpy((((c * 7 + y * 3 + x * 5 + i * x) % 11).astype(numpy.float32) / 5 - 1))


def logits(model, side):
    with torch.no_grad():
        return fill(model).eval()(images(1, side)).flatten().tolist()


def losses():
    model = fill(torchvision.models.resnet50(weights=None)).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    batch, labels = images(4, 224), torch.tensor([3, 500, 999, 0])
    found = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batch), labels)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


torch.set_num_threads(1)
MODELS = {
    "inception3": lambda: logits(torchvision.models.inception_v3(weights=None, init_weights=False), 299),
    "alexnet": lambda: logits(torchvision.models.alexnet(weights=None), 224),
    "resnet50": losses,
}
print(json.dumps(MODELS[sys.argv[1]]()))
