"""The other side of `cargo xtask bench pytorch`: the same work by PyTorch, torchvision and Pillow, written as
in their documentation.

  beside.py prepare FOLDER                   inputs and weights that both sides read
  beside.py image FOLDER THREADS WARMUP REQUESTS    ResNet-50 on pictures, one at a time
  beside.py text FOLDER THREADS WARMUP REQUESTS     BERT-Large on one window of 384 tokens
  beside.py train FOLDER THREADS WARMUP STEPS       steps of ResNet-50 with 32 images

Says `started` on standard error when the first request or step, of the warm-up, is about to begin. Prints a
line of JSON at the end: of pictures medians in nanoseconds, of the requests after the warm-up. Of the others
it is the line's time that counts.
"""

import json
import pathlib
import statistics
import sys
import time
import warnings

import numpy
import safetensors.torch
import torch
import torchvision
from PIL import Image
from torch import nn
from torch.nn import functional
from torchvision import transforms

PICTURES = 32
BATCH = 32
LENGTH = 384


class Layer(nn.Module):
    """One of BERT's layers, with PyTorch's fused attention, the default in Hugging Face's library."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.attended = (nn.Linear(width, width) for _ in range(4))
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.after_attention, self.after_all = (nn.LayerNorm(width, eps=1e-12) for _ in range(2))

    def forward(self, values, mask):
        rows, length, width = values.shape

        def split(layer):
            return layer(values).view(rows, length, self.heads, width // self.heads).transpose(1, 2)

        context = functional.scaled_dot_product_attention(
            split(self.query), split(self.key), split(self.value), attn_mask=mask
        )
        context = context.transpose(1, 2).reshape(rows, length, width)
        attended = self.after_attention(self.attended(context) + values)
        return self.after_all(self.outer(functional.gelu(self.inner(attended))) + attended)


class Bert(nn.Module):
    def __init__(self, layers=24, width=1024, heads=16):
        super().__init__()
        self.words, self.places, self.segments = (nn.Embedding(n, width) for n in (30522, 512, 2))
        self.normalise = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.answers = nn.Linear(width, 2)

    def forward(self, tokens, segments, mask):
        values = self.words(tokens) + self.segments(segments) + self.places.weight[: tokens.shape[1]]
        values = self.normalise(values)
        mask = (mask[:, None, None, :].float() - 1) * 10000
        for layer in self.layers:
            values = layer(values, mask)
        return self.answers(values)

    def named(self):
        """Its tensors under Hugging Face's names."""
        names = {
            "query": "attention.self.query",
            "key": "attention.self.key",
            "value": "attention.self.value",
            "attended": "attention.output.dense",
            "after_attention": "attention.output.LayerNorm",
            "inner": "intermediate.dense",
            "outer": "output.dense",
            "after_all": "output.LayerNorm",
        }
        outer = {
            "words": "bert.embeddings.word_embeddings",
            "places": "bert.embeddings.position_embeddings",
            "segments": "bert.embeddings.token_type_embeddings",
            "normalise": "bert.embeddings.LayerNorm",
            "answers": "qa_outputs",
        }
        for name, tensor in self.state_dict().items():
            parts = name.split(".")
            if parts[0] == "layers":
                yield f"bert.encoder.layer.{parts[1]}.{names[parts[2]]}.{parts[3]}", name, tensor
            else:
                yield f"{outer[parts[0]]}.{parts[1]}", name, tensor


def picture(place):
    """A picture with smooth parts and edges, 500 x 375, of about as many bytes as a photograph."""
    random = numpy.random.default_rng(place)
    coarse = Image.fromarray(random.integers(0, 256, (12, 16, 3), dtype=numpy.uint8)).resize((500, 375))
    pixels = numpy.asarray(coarse).astype(numpy.int16) + random.integers(-24, 25, (375, 500, 3), dtype=numpy.int16)
    return Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8))


def prepare(folder):
    torch.manual_seed(1)
    for name in ("pictures", "texts"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for place in range(PICTURES):
        picture(place).save(folder / "pictures" / f"{place:02}.jpg", quality=90)
    words = "the house at the end of the road was sold to a man who came from far away and had no name".split()
    (folder / "texts" / "one.txt").write_text("who was it sold to\n" + " ".join(words * 2) + "\n")
    safetensors.torch.save_file(
        torchvision.models.resnet50(weights=None).state_dict(), folder / "resnet50.safetensors"
    )
    tensors = {name: tensor.contiguous() for name, _, tensor in Bert().named()}
    safetensors.torch.save_file(tensors, folder / "bert.safetensors")


def started():
    print("started", file=sys.stderr, flush=True)


def image(folder, warmup, requests):
    model = torchvision.models.resnet50(weights=None)
    model.load_state_dict(safetensors.torch.load_file(folder / "resnet50.safetensors"))
    model.eval()
    prepared = transforms.Compose(
        [
            transforms.Resize(256),
            transforms.CenterCrop(224),
            transforms.ToTensor(),
            transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    files = sorted((folder / "pictures").iterdir())
    preprocess, inference = [], []
    started()
    with torch.inference_mode():
        for request in range(warmup + requests):
            start = time.perf_counter_ns()
            with Image.open(files[request % len(files)]) as opened:
                batch = prepared(opened.convert("RGB")).unsqueeze(0)
            middle = time.perf_counter_ns()
            model(batch)
            preprocess.append(middle - start)
            inference.append(time.perf_counter_ns() - middle)
    return {"preprocess_ns": statistics.median(preprocess[warmup:]), "inference_ns": statistics.median(inference[warmup:])}


def text(folder, warmup, requests):
    model = Bert()
    own = {hugging: name for hugging, name, _ in model.named()}
    stored = safetensors.torch.load_file(folder / "bert.safetensors")
    model.load_state_dict({own[name]: tensor for name, tensor in stored.items()})
    model.eval()
    tokens = torch.arange(LENGTH).unsqueeze(0) * 37 % 29000 + 1000
    segments, mask = torch.zeros_like(tokens), torch.ones_like(tokens)
    mask[:, 64:] = 0
    started()
    with torch.inference_mode():
        for _ in range(warmup + requests):
            model(tokens, segments, mask)
    return {}


def train(folder, warmup, steps):
    model = torchvision.models.resnet50(weights=None)
    model.load_state_dict(safetensors.torch.load_file(folder / "resnet50.safetensors"))
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch, labels = torch.randn(BATCH, 3, 224, 224), torch.randint(0, 1000, (BATCH,))
    started()
    for _ in range(warmup + steps):
        loss = functional.cross_entropy(model(batch), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
    return {}


warnings.simplefilter("ignore")
verb, folder = sys.argv[1], pathlib.Path(sys.argv[2])
if verb == "prepare":
    prepare(folder)
else:
    torch.set_num_threads(int(sys.argv[3]))
    print(json.dumps({"image": image, "text": text, "train": train}[verb](folder, *map(int, sys.argv[4:6]))))
