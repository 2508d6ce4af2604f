"""A training loop as anybody writes it, with a DataLoader of two worker processes: `training.py BATCHES`."""

import sys

import torch
from models import ResNet
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __len__(self):
        return 2 * int(sys.argv[1])

    def __getitem__(self, index):
        picture = torch.randn(3, 32, 32)
        for _ in range(20):
            picture = torch.tanh(picture)
        return picture, index % 10


if __name__ == "__main__":
    torch.set_num_threads(1)
    model = ResNet(width=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for pictures, classes in DataLoader(Pictures(), batch_size=2, num_workers=2):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(pictures), classes)
        loss.backward()
        optimizer.step()
