"""A training loop as anybody writes it, with a DataLoader of two worker processes: `training.py BATCHES
[TIMES]`.

A worker has the fault. The loop writes when each step ended into the file TIMES, CLOCK_MONOTONIC in ns.
"""

import sys
import time

import torch
from faults import fault
from models import ResNet
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __len__(self):
        return 2 * int(sys.argv[1])

    def __getitem__(self, index):
        if index % 2 == 0:
            fault(index // 2)
        picture = torch.randn(3, 32, 32)
        for _ in range(20):
            picture = torch.tanh(picture)
        return picture, index % 10


if __name__ == "__main__":
    torch.set_num_threads(1)
    model = ResNet(width=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    ended_ns = []
    for pictures, classes in DataLoader(Pictures(), batch_size=2, num_workers=2):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(pictures), classes)
        loss.backward()
        optimizer.step()
        ended_ns.append(time.monotonic_ns())
    if len(sys.argv) > 2:
        with open(sys.argv[2], "w") as file:
            file.write("\n".join(map(str, ended_ns)))
