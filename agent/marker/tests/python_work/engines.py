"""Keras, and the steps of engines that serve many requests at once."""

from types import SimpleNamespace

from recorder import check, forget, recorder
import fakes  # noqa: F401
from keras.src.backend.torch.trainer import TorchTrainer

forget()


class Model(TorchTrainer):
    pass


Model().fit([1, 2])
check(
    "fit",
    "t1 begin p1 fit Model",
    "t1 begin p2 train step",
    "t1 end p2",
    "t1 begin p3 train step",
    "t1 end p3",
    "t1 begin p4 test step",
    "t1 end p4",
    "t1 end p1",
)
try:
    Model().fit([None])
except ValueError as error:
    names = []
    traceback = error.__traceback__
    while traceback:
        names.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    assert names == ["<module>", "fit"], names
check("a batch that raises", "t1 begin p5 fit Model", "t1 begin p6 train step", "t1 end p6", "t1 end p5")
assert Model().predict(1) == 3
check("predict", "t1 begin p7 predict Model", "t1 end p7")

from sglang.srt.managers.scheduler import Scheduler  # noqa: E402

forget()
for kind in ("mixed", "decode", "extend", "idle"):
    mode = SimpleNamespace(**{"is_" + other: lambda it=other == kind: it for other in ("mixed", "decode", "extend")})
    assert Scheduler().process_batch_result(None, Scheduler().run_batch(SimpleNamespace(forward_mode=mode))) == 7
words = [line.split(" ", 3)[3] for line in recorder.take() if " begin " in line]
assert words == ["prefill and decode", "output", "decode", "output", "prefill", "output", "no tokens", "output"], words
assert not any(recorder.inside.values()), recorder.inside
