"""Inference libraries: outermost calls only, results and errors of the program's own."""

from recorder import check, forget, recorder
import fakes  # noqa: F401
import onnxruntime

session = onnxruntime.InferenceSession("/models/secret/resnet.onnx")
check("onnxruntime", "t1 tell +onnxruntime")
assert session.run(["y"], {}) == ["y"]
check("run", "t1 begin p1 run resnet.onnx", "t1 end p1")
session.run_with_iobinding(None)
check("an outer run", "t1 begin p2 run resnet.onnx", "t1 end p2")
got = []
session.run_async(["y"], {}, lambda *result: got.append(result), 7)
assert got == [(["y"], 7, "")]
check("run_async", "t1 begin p3 submit resnet.onnx", "t1 end p3")
onnxruntime.InferenceSession(b"bytes").run(None, {})
check("a model of bytes", "t1 begin p4 run main_graph", "t1 end p4")

import sklearn.base  # noqa: E402

forget()


class Scaler(sklearn.base.TransformerMixin, sklearn.base.BaseEstimator):
    def fit(self, x):
        return self

    def transform(self, x):
        if x is None:
            raise KeyError("x")
        return x + 1


class Forest(sklearn.base.BaseEstimator):
    def predict(self, x):
        return Scaler().transform(x)


assert Forest().predict(1) == 2
check("predict", "t1 begin p5 predict Forest", "t1 end p5")
assert Scaler().fit_transform(1) == 2
check("fit_transform", "t1 begin p6 fit_transform Scaler", "t1 end p6")
try:
    Forest().predict(None)
except KeyError as error:
    names = []
    traceback = error.__traceback__
    while traceback:
        names.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    assert names == ["<module>", "predict", "transform"], names
check("an error", "t1 begin p7 predict Forest", "t1 end p7")

import joblib.parallel  # noqa: E402
import threading  # noqa: E402

forget()
thread = threading.Thread(target=joblib.parallel.BatchedCalls())
thread.start()
thread.join()
check("joblib", "t2 begin p8 joblib", "t2 end p8")

import torch  # noqa: E402
from transformers.generation.utils import GenerationMixin  # noqa: E402

forget()


class Encoder(torch.nn.Module):
    def forward(self, x):
        return x


class Llama(torch.nn.Module, GenerationMixin):
    def forward(self, x):
        return x

    def prepare(self):
        Encoder()(1)


Llama().generate(3)
check(
    "generate",
    "t1 begin p9 generate",
    "t1 begin p10 forward Encoder",
    "t1 end p10",
    "t1 begin p11 prefill",
    "t1 end p11",
    "t1 begin p12 decode",
    "t1 end p12",
    "t1 begin p13 decode",
    "t1 end p13",
    "t1 end p9",
)
Encoder()(1)
check("behind it", "t1 begin p14 forward Encoder", "t1 end p14")

import mlperf_loadgen  # noqa: E402

forget()
issue = mlperf_loadgen.ConstructSUT(lambda samples: mlperf_loadgen.QuerySamplesComplete(samples[:1]), None)
a, b = mlperf_loadgen.Sample(100), mlperf_loadgen.Sample(101)
issue([a])
check("a query that is done at once", "t1 request r15 query #100", "t1 end r15")
issue = mlperf_loadgen.ConstructSUT(lambda samples: None, None)
issue([a, b])
check(
    "queries that are done later",
    "t1 request r16 query #100",
    "t1 request r17 query #101",
    "t1 leave r17",
    "t1 leave r16",
)
thread = threading.Thread(target=mlperf_loadgen.QuerySamplesComplete, args=([b, a],))
thread.start()
thread.join()
check("by another thread", "t2 enter r17", "t2 end r17", "t2 enter r16", "t2 end r16")
mlperf_loadgen.QuerySamplesComplete([a])
check("a sample that nobody knows")
assert not any(recorder.inside.values()), recorder.inside
