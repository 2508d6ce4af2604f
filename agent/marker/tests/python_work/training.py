"""Training loops: forward, backward, optimizer steps, data, and the steps around them."""

import gc

from recorder import check, forget, recorder
import fakes  # noqa: F401
import guestscope
import torch
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

check("import", "t1 tell +torch 9.9")


class Inner(torch.nn.Module):
    def forward(self, x):
        return x


class Net(torch.nn.Module):
    inner = Inner()

    def forward(self, x):
        if x is None:
            raise ValueError("none")
        return self.inner(self.inner(x))


net, optimizer = Net(), torch.optim.SGD()


def learn(x):
    net(x)
    torch.autograd.backward(x)
    optimizer.step()


def recorder_lines(name):
    step = "p%d" % (loop_token() >> 18)
    return ["t1 rename %s %s" % (step, name), "t1 end " + step]


def loop_token():
    return [token for tokens in recorder.inside.values() for token in tokens][-1]


def learned(step, *data):
    at = step + len(data) // 2 + 1
    lines = ["begin p%d forward Net", "end p%d", "begin p%d backward", "end p%d", "begin p%d optimizer SGD", "end p%d"]
    return [*data, *("t1 " + line % (at + number // 2) for number, line in enumerate(lines)), "t1 end p%d" % step]


# Outside of training a call is a phase by itself, with its exceptions and results.
assert net(3) == 3
check("inference", "t1 begin p1 forward Net", "t1 end p1")
try:
    net(None)
    raise SystemExit("no error")
except ValueError as error:
    names = []
    traceback = error.__traceback__
    while traceback:
        names.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    assert names == ["<module>", "_wrapped_call_impl", "forward"], names
check("exception", "t1 begin p2 forward Net", "t1 end p2")

# The first step is known at its first data; the others follow each other without a gap.
for batch in torch.utils.data.DataLoader([1, 2]):
    learn(batch)
check(
    "a loop with data",
    "t1 begin p3 step #1",
    *learned(3, "t1 begin p4 data #1", "t1 end p4"),
    "t1 begin p8 step #2",
    *learned(8, "t1 begin p9 data #2", "t1 end p9"),
    "t1 begin p13 step #3",
    "t1 begin p14 data #3",
    "t1 end p14",
    "t1 rename p13 after the last batch",
    "t1 end p13",
)

# Without a DataLoader, a step begins with its first forward.
learn(1)
check("a loop without data", "t1 begin p15 step #4", *learned(15))

# Validation, without an optimizer: each batch is a root `batch`.
net.eval()
for batch in torch.utils.data.DataLoader([1, 2]):
    net(batch)
net.train()
lines = recorder.take()
assert [line for line in lines if "rename" in line] == [
    "t1 rename p19 batch",
    "t1 rename p22 batch",
    "t1 rename p25 after the last batch",
], lines

# A loop that is left early: the iterator is gone.
for batch in torch.utils.data.DataLoader([1, 2]):
    learn(batch)
    break
gc.collect()
assert recorder.take()[-2:] == ["t1 rename p32 after the last batch", "t1 end p32"]

# Batches that nobody calls a module with do not stay open for ever.
for batch in torch.utils.data.DataLoader([1, 2, 3]):
    pass
assert not any(recorder.inside.values()), recorder.inside
assert sum("rename" in line for line in recorder.take()) == 2

# Those of workers are joined: the trace is made of what the worker knows as well.
from guestscope_sources.hooks import torch_data  # noqa: E402
import os  # noqa: E402

for batch in torch.utils.data.DataLoader([1], _MultiProcessingDataLoaderIter):
    learn(batch)
trace = torch_data._trace(os.getpid(), 77, 1, 1).hex()[:8]
assert any(line.endswith(trace) and " joins " in line for line in recorder.take())

# A library's step holds the first forward: the step begins before it.
from guestscope_sources.hooks import loop  # noqa: E402
from transformers.trainer import Trainer  # noqa: E402

forget()
Trainer().training_step(net, 1)
optimizer.step()
lines = [line.partition(" ")[2] for line in recorder.take()]
assert lines[0].endswith(" step #%d" % loop.here.number) and lines[-1] == lines[0].split(" ")[1].join(["end ", ""]), lines
assert [line.split(" ", 2)[2] for line in lines if line.startswith("begin")][1:] == [
    "training step",
    "forward Net",
    "optimizer SGD",
], lines

# A program that trains and then infers has one phase for the unfinished step.
net(1)
torch.autograd.backward(1)
forget()
expected = recorder_lines("unfinished step")
loop._leaving()
check("never stepped", *expected)
net(1)
forget()
expected = recorder_lines("after the last step")
loop._leaving()
check("never learned", *expected)
torch.is_grad_enabled = lambda: False
net(1)
assert not any("step #" in line for line in recorder.take())
del torch.is_grad_enabled

# Inside of a request there are phases and no steps: the request is what is outermost.
with guestscope.request("mine", 1):
    learn(1)
lines = recorder.take()
assert not any("step #" in line for line in lines) and any("forward Net" in line for line in lines), lines

# From then on the program marks itself, also where it is outside.
learn(1)
assert not any("step #" in line for line in recorder.take())
