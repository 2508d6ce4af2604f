"""Computes with PyTorch's own modules what `tests/pytorch.rs` compares with: `python3 pytorch_reference.py
MODEL SCALE`.

Needs torch and numpy. MODEL is dlrm, bert, features or rnnt. Weights are drawn by the rule of
src/infer/seeded.rs with seed 1, under the names of the reference implementations; inputs are patterns, the
same as in the test. Prints a JSON list of numbers.
"""

import json
import sys

import numpy
import torch
from torch import nn

SEED = 1
WORD = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15


def mixed(state):
    """SplitMix64's output for a state, or an array of states."""
    z = state
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & WORD
    return z ^ (z >> 31)


def fnv(data, value=0xCBF29CE484222325):
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & WORD
    return value


def uniform(name, count, low, high):
    """The numbers of the stream that belongs to the tensor `name`."""
    stream = fnv(name.encode(), fnv(len(name).to_bytes(8, "little")))
    start = mixed((SEED + GAMMA) & WORD) ^ stream
    start = mixed((start + GAMMA) & WORD)
    with numpy.errstate(over="ignore"):
        z = numpy.uint64(start) + numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(GAMMA)
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        z = z ^ (z >> numpy.uint64(31))
    unit = (z >> numpy.uint64(40)).astype(numpy.float32) / numpy.float32(2**24)
    low, high = numpy.float32(low), numpy.float32(high)
    return low + unit * (high - low)


def seeded(name, shape, gain):
    count = int(numpy.prod(shape))
    if len(shape) == 2:
        bound = numpy.float32((gain / shape[1]) ** 0.5)
        values = uniform(name, count, -bound, bound)
    elif name.endswith(".weight"):
        values = uniform(name, count, 0.9, 1.1)
    else:
        values = uniform(name, count, -0.1, 0.1)
    return torch.from_numpy(values.reshape(shape))


def fill(module, gain=1.0, rename=lambda name: name):
    """Gives each parameter the values that belong to its name, or to the one that `rename` makes of it."""
    with torch.no_grad():
        for name, tensor in module.named_parameters():
            tensor.copy_(seeded(rename(name), tuple(tensor.shape), gain))
    return module.eval()


def scaled(size, unit, scale):
    return size if scale == 1 else max(1, round(size / unit * scale)) * unit


TABLES = [
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10, 5652,
    2173, 4, 7046547, 18, 15, 286181, 105, 142572,
]  # fmt: skip


def layers(sizes, last):
    modules = []
    for here, there in zip(sizes, sizes[1:]):
        modules += [nn.Linear(here, there), nn.ReLU()]
    return nn.Sequential(*modules[:-1], last)


class Dlrm(nn.Module):
    def __init__(self, scale):
        super().__init__()
        tables = [scaled(rows, 1, scale) for rows in TABLES]
        wide, middle, narrow = (scaled(size, 8, scale) for size in (512, 256, 64))
        self.emb_l = nn.ModuleList(nn.EmbeddingBag(rows, 16, mode="sum") for rows in tables)
        self.bot_l = layers([13, wide, middle, narrow, 16], nn.ReLU())
        self.top_l = layers([16 + 27 * 26 // 2, wide, middle, 1], nn.Sigmoid())

    def forward(self, counts, rows):
        dense = self.bot_l(counts)
        bags = torch.arange(len(counts))
        vectors = torch.stack([dense] + [table(row, bags) for table, row in zip(self.emb_l, rows)], 1)
        products = torch.einsum("nid,njd->nij", vectors, vectors)
        pairs = [products[:, i, j] for i in range(27) for j in range(i)]
        return self.top_l(torch.cat([dense, torch.stack(pairs, 1)], 1))


def dlrm(scale):
    model = fill(Dlrm(scale), gain=6.0)
    counts = torch.tensor([[(line * 7 + column * 3) % 11 / 5 for column in range(13)] for line in range(5)])
    rows = [
        torch.tensor([(line * 1009 + category * 37) % table.num_embeddings for line in range(5)])
        for category, table in enumerate(model.emb_l)
    ]
    return model(counts, rows).flatten()


class Bert(nn.Module):
    """PyTorch's own encoder layers under Hugging Face's names."""

    def __init__(self, scale):
        super().__init__()
        heads, layers = scaled(16, 1, scale), scaled(24, 1, scale)
        width = heads * 64
        self.word_embeddings = nn.Embedding(30522, width)
        self.position_embeddings = nn.Embedding(512, width)
        self.token_type_embeddings = nn.Embedding(2, width)
        self.LayerNorm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, 4 * width, 0.0, activation="gelu", layer_norm_eps=1e-12, batch_first=True
            )
            for _ in range(layers)
        )
        self.qa_outputs = nn.Linear(width, 2)

    def fill(self):
        with torch.no_grad():
            for name, tensor in self.named_parameters():
                if not name.startswith("layers."):
                    within = name if name.startswith("qa_outputs") else f"bert.embeddings.{name}"
                    tensor.copy_(seeded(within, tuple(tensor.shape), 1.0))
            for index, layer in enumerate(self.layers):
                self.fill_layer(layer, f"bert.encoder.layer.{index}.")
        return self.eval()

    @staticmethod
    def fill_layer(layer, prefix):
        width = layer.linear1.in_features

        def all_of(module, name):
            module.weight.copy_(seeded(f"{prefix}{name}.weight", tuple(module.weight.shape), 1.0))
            module.bias.copy_(seeded(f"{prefix}{name}.bias", tuple(module.bias.shape), 1.0))

        for place, name in enumerate(("query", "key", "value")):
            rows = slice(place * width, (place + 1) * width)
            own = f"{prefix}attention.self.{name}"
            layer.self_attn.in_proj_weight[rows] = seeded(f"{own}.weight", (width, width), 1.0)
            layer.self_attn.in_proj_bias[rows] = seeded(f"{own}.bias", (width,), 1.0)
        all_of(layer.self_attn.out_proj, "attention.output.dense")
        all_of(layer.norm1, "attention.output.LayerNorm")
        all_of(layer.linear1, "intermediate.dense")
        all_of(layer.linear2, "output.dense")
        all_of(layer.norm2, "output.LayerNorm")

    def forward(self, tokens, segments, mask):
        positions = torch.arange(tokens.shape[1])
        values = self.word_embeddings(tokens) + self.position_embeddings(positions)
        values = self.LayerNorm(values + self.token_type_embeddings(segments))
        for layer in self.layers:
            values = layer(values, src_key_padding_mask=mask == 0)
        return self.qa_outputs(values)


def bert(scale):
    """Two windows, the second one of 40 tokens; the numbers of three tokens of each, and of all at full
    scale."""
    torch.backends.mha.set_fastpath_enabled(False)
    length = 384 if scale == 1 else 64
    tokens = torch.tensor([[(window * 977 + at * 37) % 29000 + 1000 for at in range(length)] for window in range(2)])
    segments = torch.tensor([[int(at >= 12) for at in range(length)]] * 2)
    mask = torch.tensor([[1] * length, [1] * 40 + [0] * (length - 40)])
    logits = Bert(scale).fill()(tokens, segments, mask)
    return logits.flatten() if scale == 1 else logits[:, [0, 17, 39]].flatten()


def recording():
    """A second of a saw-tooth that rises, and of numbers that look like noise."""
    at = torch.arange(16000, dtype=torch.float64)
    return ((at * at % 997) / 997 * 0.5 + (at * 7919 % 1009) / 1009 * 0.1 - 0.3).float()


def triangles():
    """Slaney's filters, from the definition: interpolation between edges that are even in mel."""

    def hertz(mel):
        return numpy.where(mel < 15, mel * 200 / 3, 1000 * numpy.exp((mel - 15) * numpy.log(6.4) / 27))

    edges = hertz(numpy.linspace(0, 15 + numpy.log(8) * 27 / numpy.log(6.4), 82))
    bins = numpy.linspace(0, 8000, 257)
    rows = [
        numpy.interp(bins, edges[band : band + 3], [0, 1, 0], left=0, right=0) * 2 / (edges[band + 2] - edges[band])
        for band in range(80)
    ]
    return torch.from_numpy(numpy.array(rows)).float()


def log_mel():
    sound = recording()
    sound = torch.cat([sound[:1], sound[1:] - 0.97 * sound[:-1]])
    window = torch.hann_window(320, periodic=False)
    spectrum = torch.stft(sound, 512, 160, 320, window, center=True, return_complex=True)
    bands = torch.log(triangles() @ torch.view_as_real(spectrum).pow(2).sum(-1) + 1e-20)
    frames = bands.shape[1]
    parts = [bands] + [torch.cat([bands[:, n:], torch.zeros(80, n)], 1) for n in (1, 2)]
    spliced = torch.cat(parts)[:, torch.arange(0, frames, 3)]
    return ((spliced - spliced.mean(1, keepdim=True)) / (spliced.std(1, keepdim=True) + 1e-5)).T


def features(_):
    return log_mel()[[0, 5, 33]][:, [0, 40, 79, 80, 159, 160, 239]].flatten()


# As in src/infer/rnnt.rs.
BLANK_BIAS = 1.0


class Rnnt(nn.Module):
    def __init__(self, scale):
        super().__init__()
        encoded, predicted, joined = (scaled(size, 8, scale) for size in (1024, 320, 512))
        self.pre_rnn = nn.LSTM(240, encoded, 2)
        self.post_rnn = nn.LSTM(2 * encoded, encoded, 3)
        self.embed = nn.Embedding(28, predicted)
        self.dec_rnn = nn.LSTM(predicted, predicted, 2)
        self.joint_net = nn.Sequential(
            nn.Linear(encoded + predicted, joined), nn.ReLU(), nn.Dropout(), nn.Linear(joined, 29)
        )

    @staticmethod
    def name(own):
        place, _, rest = own.partition(".")
        parts = {
            "pre_rnn": "encoder.pre_rnn.lstm",
            "post_rnn": "encoder.post_rnn.lstm",
            "embed": "prediction.embed",
            "dec_rnn": "prediction.dec_rnn.lstm",
        }
        return f"{parts.get(place, place)}.{rest}"

    def encode(self, steps):
        steps = self.pre_rnn(steps)[0]
        if len(steps) % 2:
            steps = torch.cat([steps, torch.zeros_like(steps[:1])])
        return self.post_rnn(torch.cat([steps[0::2], steps[1::2]], -1))[0]

    def join(self, step, symbols):
        inputs = torch.cat([torch.zeros(1, self.embed.embedding_dim), self.embed(torch.tensor(symbols, dtype=torch.long))])
        return self.joint_net(torch.cat([step, self.dec_rnn(inputs)[0][-1]]))


def rnnt(scale):
    """Five numbers of each of three encoded steps, four of the joint after one of them and three symbols; all
    at full scale."""
    model = fill(Rnnt(scale), gain=20.0, rename=Rnnt.name)
    model.joint_net[3].bias[28] += BLANK_BIAS
    encoded = model.encode(log_mel()[:33].unsqueeze(1))[:, 0]
    joined = model.join(encoded[7], [3, 0, 27])
    if scale == 1:
        return torch.cat([encoded.flatten(), joined])
    return torch.cat([encoded[[0, 7, 16], :5].flatten(), joined[[0, 1, 27, 28]]])


if __name__ == "__main__":
    torch.set_num_threads(1)
    model = {"dlrm": dlrm, "bert": bert, "features": features, "rnnt": rnnt}[sys.argv[1]]
    with torch.no_grad():
        print(json.dumps([round(float(value), 7) for value in model(float(sys.argv[2]))]))
