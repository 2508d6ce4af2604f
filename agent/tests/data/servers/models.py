"""A ResNet made of torch alone, small enough for a test and large enough that a request is mostly
inference."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outside),
            nn.ReLU(),
            nn.Conv2d(outside, outside, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outside),
        )
        is_same = stride == 1 and inside == outside
        self.shortcut = nn.Identity() if is_same else nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x):
        return torch.relu(self.path(x) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, width=64, classes=10):
        super().__init__()
        layers, last = [], width
        for wider, stride in ((1, 1), (1, 1), (2, 2), (2, 1), (4, 2), (4, 1), (8, 2), (8, 1)):
            layers.append(Block(last, width * wider, stride))
            last = width * wider
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(last, classes)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean((2, 3)))
