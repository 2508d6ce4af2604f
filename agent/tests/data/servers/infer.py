"""Work for servers: `infer(KIND, NOTE)` returns a function that does it once. KIND's first word selects the
library; NOTE is the prefix of its files."""

import os


def torch_model(note):
    import torch
    from models import ResNet

    torch.set_num_threads(1)
    model, picture = ResNet().eval(), torch.randn(1, 3, 128, 128)

    def infer():
        with torch.inference_mode():
            return float(model(picture)[0, 0])

    return infer


def onnx_model(note):
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
    path = note + ".onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    x = numpy.ones((64, size), numpy.float32)
    return lambda: float(session.run(None, {"x": x})[0][0, 0] > 0)


def forest(note):
    import numpy
    from sklearn.ensemble import RandomForestClassifier

    random = numpy.random.default_rng(0)
    x = random.normal(size=(200, 5))
    model = RandomForestClassifier(800).fit(x, x[:, 0] > 0)
    return lambda: float(model.predict(x[:50])[0])


def language_model(note):
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


def llama(note):
    """llama.cpp by its C functions: a prompt and seven further tokens, one at a time."""
    import threading

    import llama_model

    llama_model.write(note + ".gguf")
    decoder, own = llama_model.Decoder(note + ".gguf"), threading.local()

    def infer():
        if not hasattr(own, "context"):
            own.context = decoder.context()
        decoder.clear(own.context)
        for tokens in [[1] + list(range(10, 73))] + [[5]] * 7:
            decoder.decode(own.context, tokens)
        return 1.0

    return infer


def spans(note):
    """The program's own spans around and within inference: each line of NOTE.spans is one."""
    from opentelemetry import trace
    from opentelemetry.propagate import extract
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

    class Lines(SpanExporter):
        def export(self, finished):
            with open(note + ".spans", "a") as file:
                for span in finished:
                    parent = "%016x" % span.parent.span_id if span.parent else "-" * 16
                    ids = "%032x %016x" % (span.context.trace_id, span.context.span_id)
                    file.write("%s %s %s\n" % (ids, parent, span.name))
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Lines()))
    trace.set_tracer_provider(provider)
    tracer = trace.get_tracer("service")
    model = torch_model(note)

    def infer(headers=None):
        with tracer.start_as_current_span("handle", extract(headers or {})), tracer.start_as_current_span("infer"):
            return model()

    return infer


KINDS = {
    "torch": torch_model,
    "onnx": onnx_model,
    "sklearn": forest,
    "generate": language_model,
    "llama": llama,
    "spans": spans,
}


def infer(kind, note):
    """Runs the function once, makes the file NOTE.ready.PID, and returns the function."""
    function = KINDS[kind.split("-")[0]](note)
    function()
    open("%s.ready.%d" % (note, os.getpid()), "w").close()
    return function
