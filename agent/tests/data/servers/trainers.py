"""Trains and predicts with a trainer: `trainers.py keras|tensorflow|lightning`. 77: its package is not here.

48 samples to train on and 16 to validate with, 16 at a time, twice; then 64 to predict in four batches.
"""

import importlib.util
import os
import sys
import warnings

PACKAGES = {"keras": ("keras", "torch"), "tensorflow": ("keras", "tensorflow"), "lightning": ("pytorch_lightning",)}
BATCH, EPOCHS = 16, 2


def keras(backend):
    os.environ["KERAS_BACKEND"] = backend
    import keras
    import numpy

    model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    samples = numpy.ones((64, 8), "float32")
    model.fit(samples, samples[:, :1], BATCH, EPOCHS, verbose=0, validation_split=0.25)
    assert model.predict(samples, BATCH, verbose=0).shape == (64, 1)


def lightning():
    warnings.filterwarnings("ignore")
    import pytorch_lightning
    import torch

    class Model(pytorch_lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(8, 1)

        def training_step(self, batch, index):
            return self.inner(batch[0]).square().mean()

        def validation_step(self, batch, index):
            return self.inner(batch[0]).square().mean()

        def predict_step(self, batch, index):
            return self.inner(batch[0])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    def loader(samples):
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(samples, 8)), BATCH)

    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "num_sanity_val_steps": 0}
    trainer = pytorch_lightning.Trainer(max_epochs=EPOCHS, accelerator="cpu", **quiet)
    trainer.fit(Model(), loader(48), loader(16))
    assert len(trainer.predict(Model(), loader(64))) == 4


if __name__ == "__main__":
    if not all(importlib.util.find_spec(package) for package in PACKAGES[sys.argv[1]]):
        sys.exit(77)
    {"keras": lambda: keras("torch"), "tensorflow": lambda: keras("tensorflow"), "lightning": lightning}[sys.argv[1]]()
