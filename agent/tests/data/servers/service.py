"""A FastAPI server on uvicorn, which knows nothing of guestscope: `service.py KIND NOTE`.

It writes its port into the file NOTE, and ends when there is a file NOTE.stop. KIND says what a request works with.
"""

import os
import socket
import sys
import threading
import time

import fastapi
import uvicorn

app = fastapi.FastAPI()


def torch_model():
    import torch
    from models import ResNet

    torch.set_num_threads(1)
    model, picture = ResNet().eval(), torch.randn(1, 3, 96, 96)

    def infer():
        with torch.inference_mode():
            return float(model(picture)[0, 0])

    return infer


def onnx_model():
    import numpy
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    size, count = 1024, 40
    weights = helper.make_tensor("w", TensorProto.FLOAT, [size, size], numpy.ones(size * size, numpy.float32))
    shape = helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, size])
    result = helper.make_tensor_value_info("y%d" % count, TensorProto.FLOAT, [64, size])
    nodes = [
        helper.make_node("MatMul", ["x" if at == 0 else "y%d" % at, "w"], ["y%d" % (at + 1)]) for at in range(count)
    ]
    graph = helper.make_graph(nodes, "graph", [shape], [result], [weights])
    path = sys.argv[2] + ".onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    x = numpy.ones((64, size), numpy.float32)
    return lambda: float(session.run(None, {"x": x})[0][0, 0] > 0)


def forest():
    import numpy
    from sklearn.ensemble import RandomForestClassifier

    random = numpy.random.default_rng(0)
    x = random.normal(size=(200, 5))
    model = RandomForestClassifier(800).fit(x, x[:, 0] > 0)
    return lambda: float(model.predict(x[:50])[0])


def language_model():
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=200,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
    )
    model = LlamaForCausalLM(config).eval()
    prompt = torch.arange(64).reshape(1, 64)
    options = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False, "pad_token_id": 0}

    def generate():
        return float(model.generate(prompt, attention_mask=torch.ones_like(prompt), **options)[0, -1])

    return generate


def spans():
    """The program's own spans around and within inference: each line of NOTE.spans is one."""
    from opentelemetry import trace
    from opentelemetry.propagate import extract
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

    class Lines(SpanExporter):
        def export(self, finished):
            with open(sys.argv[2] + ".spans", "a") as file:
                for span in finished:
                    parent = "%016x" % span.parent.span_id if span.parent else "-" * 16
                    ids = "%032x %016x" % (span.context.trace_id, span.context.span_id)
                    file.write("%s %s %s\n" % (ids, parent, span.name))
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Lines()))
    trace.set_tracer_provider(provider)
    tracer = trace.get_tracer("service")
    model = torch_model()

    def infer(headers=None):
        with tracer.start_as_current_span("handle", extract(headers or {})), tracer.start_as_current_span("infer"):
            return model()

    return infer


KINDS = {"torch": torch_model, "onnx": onnx_model, "sklearn": forest, "generate": language_model, "spans": spans}
infer = KINDS[sys.argv[1].split("-")[0]]()
infer()

if sys.argv[1] == "spans":

    @app.get("/predict/{number}")
    def predict(number: int, request: fastapi.Request):
        return {"result": infer(dict(request.headers))}

elif sys.argv[1] == "spans-async":

    @app.get("/predict/{number}")
    async def predict(number: int, request: fastapi.Request):
        return {"result": infer(dict(request.headers))}

elif sys.argv[1].endswith("-async"):

    @app.get("/predict/{number}")
    async def predict(number: int):
        return {"result": infer()}

else:

    @app.get("/predict/{number}")
    def predict(number: int):
        return {"result": infer()}


def until_stopped():
    while not os.path.exists(sys.argv[2] + ".stop"):
        time.sleep(0.1)
    server.should_exit = True


listener = socket.create_server(("127.0.0.1", 0))
server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
threading.Thread(target=until_stopped, daemon=True).start()
with open(sys.argv[2] + ".new", "w") as file:
    file.write(str(listener.getsockname()[1]))
os.rename(sys.argv[2] + ".new", sys.argv[2])
server.run(sockets=[listener])
