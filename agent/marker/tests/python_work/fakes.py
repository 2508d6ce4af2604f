"""Packages that look like the real ones where hooks touch them, written to a folder of their own."""

import atexit
import os
import shutil
import sys
import tempfile

FILES = {
    "torch/__init__.py": "__version__ = '9.9'\nfrom torch import nn, autograd, optim\nfrom torch.utils import data\n",
    "torch/nn/__init__.py": "from torch.nn.modules.module import Module\n",
    "torch/nn/modules/__init__.py": "",
    "torch/nn/modules/module.py": """
class Module:
    training = True
    def _wrapped_call_impl(self, *args, **kwargs):
        return self.forward(*args, **kwargs)
    __call__ = _wrapped_call_impl
    def to(self, *args): return self
    def cuda(self): return self
    def cpu(self): return self
    def eval(self): self.training = False
    def train(self): self.training = True
""",
    "torch/autograd/__init__.py": "def backward(tensors): return None\n",
    "torch/optim/__init__.py": "from torch.optim.optimizer import SGD\n",
    "torch/optim/optimizer.py": """
import functools
class Optimizer:
    def __init__(self):
        if not getattr(type(self).step, "hooked", False):
            type(self).step = self.profile_hook_step(type(self).step)
            type(self).step.hooked = True
    @staticmethod
    def profile_hook_step(func):
        @functools.wraps(func)
        def wrapper(*args, **kwargs): return func(*args, **kwargs)
        return wrapper
class SGD(Optimizer):
    def step(self, closure=None): return closure and closure()
""",
    "torch/utils/__init__.py": "",
    "torch/utils/data/__init__.py": "from torch.utils.data.dataloader import DataLoader\n",
    "torch/utils/data/dataloader.py": """
class _BaseDataLoaderIter:
    _num_workers = 0
    def __init__(self, batches): self.batches, self._num_yielded = iter(batches), 0
    def __iter__(self): return self
    def __next__(self):
        batch = next(self.batches)
        self._num_yielded += 1
        return batch
class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    _num_workers, _base_seed = 2, 77
    def __init__(self, batches):
        super().__init__(batches)
        self._reset()
    def _reset(self): self._rcvd_idx = 0
class DataLoader:
    def __init__(self, batches, kind=_BaseDataLoaderIter): self.batches, self.kind = batches, kind
    def __iter__(self): return self.kind(self.batches)
""",
    "onnxruntime/__init__.py": "from onnxruntime.capi.onnxruntime_inference_collection import InferenceSession\n",
    "onnxruntime/capi/__init__.py": "",
    "onnxruntime/capi/onnxruntime_inference_collection.py": """
class Session:
    def run(self, output_names, input_feed, run_options=None): return output_names
    def run_async(self, output_names, input_feed, callback, user_data): callback(output_names, user_data, "")
    def run_with_iobinding(self, iobinding, run_options=None): return self.run(None, None)
    def run_with_ort_values(self, output_names, values): return None
    def run_with_ortvaluevector(self, *args): return None
class InferenceSession(Session):
    def __init__(self, path): self._model_path = path if isinstance(path, str) else None
    class _model_meta: graph_name = "main_graph"
""",
    "transformers/__init__.py": "",
    "transformers/trainer.py": """
class Trainer:
    def training_step(self, model, x): return model(x)
""",
    "transformers/generation/__init__.py": "",
    "transformers/generation/utils.py": """
class GenerationMixin:
    def generate(self, count):
        self.prepare()
        for _ in range(count): self(1)
""",
    "sklearn/__init__.py": "__version__ = '9'\n",
    "sklearn/base.py": """
class BaseEstimator: pass
class TransformerMixin:
    def fit_transform(self, x): return self.fit(x).transform(x)
""",
    "joblib/__init__.py": "",
    "joblib/parallel.py": "class BatchedCalls:\n    def __call__(self): return 5\n",
    "mlperf_loadgen.py": """
class Sample:
    def __init__(self, id): self.id = id
def ConstructSUT(issue, flush): return issue
def ConstructFastSUT(issue, flush): return issue
def QuerySamplesComplete(responses, response_cb=None): return None
""",
    "keras/__init__.py": "",
    "keras/src/__init__.py": "",
    "keras/src/callbacks/__init__.py": "",
    "keras/src/callbacks/callback_list.py": """
class CallbackList:
    def on_train_batch_begin(self, batch, logs=None): pass
    def on_train_batch_end(self, batch, logs=None): pass
    on_test_batch_begin = on_predict_batch_begin = on_train_batch_begin
    on_test_batch_end = on_predict_batch_end = on_train_batch_end
""",
    "keras/src/backend/__init__.py": "",
    "keras/src/backend/torch/__init__.py": "",
    "keras/src/backend/torch/trainer.py": """
from keras.src.callbacks.callback_list import CallbackList
class TorchTrainer:
    def fit(self, batches):
        callbacks = CallbackList()
        for number, batch in enumerate(batches):
            callbacks.on_train_batch_begin(number)
            if batch is None: raise ValueError
            callbacks.on_train_batch_end(number)
        self.evaluate(1)
    def evaluate(self, batches):
        CallbackList().on_test_batch_begin(0)
        CallbackList().on_test_batch_end(0)
    def predict(self, batches): return 3
""",
    "vllm/__init__.py": "",
    "vllm/v1/__init__.py": "",
    "vllm/v1/engine/__init__.py": "",
    "vllm/v1/engine/core.py": """
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.worker.gpu_model_runner import GPUModelRunner
class EngineCore:
    def __init__(self, outputs): self.scheduler, self.runner = Scheduler(outputs), GPUModelRunner()
    def step(self):
        scheduled = self.scheduler.schedule()
        return self.scheduler.update_from_output(scheduled, self.runner.execute_model(scheduled))
""",
    "vllm/v1/engine/async_llm.py": """
class AsyncLLM:
    def __init__(self, client): self.client = client
    async def generate(self, request):
        await self.client.add_request_async(request)
        for item in request.items:
            try: yield item
            except ValueError as error: yield error
""",
    "vllm/v1/engine/core_client.py": """
class AsyncMPClient:
    async def add_request_async(self, request): self.sent = request.trace_headers
""",
    "vllm/v1/core/__init__.py": "",
    "vllm/v1/core/sched/__init__.py": "",
    "vllm/v1/core/sched/scheduler.py": """
class Scheduler:
    def __init__(self, outputs): self.outputs, self.requests = outputs, []
    def add_request(self, request): self.requests.append(request.trace_headers)
    def schedule(self): return self.outputs.pop(0)
    def update_from_output(self, scheduled, output):
        for request in scheduled.advances: request.num_output_tokens += 1
        return output
    def finish_requests(self, ids, status): pass
""",
    "vllm/v1/worker/__init__.py": "",
    "vllm/v1/worker/gpu_model_runner.py": """
class GPUModelRunner:
    def execute_model(self, scheduler_output, intermediate_tensors=None): return 7
    def sample_tokens(self, grammar): return 8
    def _dummy_run(self): return 9
    def profile_run(self): return self._dummy_run()
""",
    "sglang/__init__.py": "",
    "sglang/srt/__init__.py": "",
    "sglang/srt/managers/__init__.py": "",
    "sglang/srt/managers/scheduler.py": """
class Scheduler:
    def run_batch(self, batch): return 7
    def process_batch_result(self, batch, result): return result
""",
    "opentelemetry/__init__.py": "",
    "opentelemetry/context/__init__.py": """
from opentelemetry.context.contextvars_context import ContextVarsRuntimeContext
_RUNTIME_CONTEXT = ContextVarsRuntimeContext()
attach, detach = _RUNTIME_CONTEXT.attach, _RUNTIME_CONTEXT.detach
get_current = _RUNTIME_CONTEXT.get_current
""",
    "opentelemetry/context/contextvars_context.py": """
from contextvars import ContextVar
class ContextVarsRuntimeContext:
    def __init__(self): self._current_context = ContextVar("current_context", default=None)
    def attach(self, context): return self._current_context.set(context)
    def get_current(self): return self._current_context.get()
    def detach(self, token): self._current_context.reset(token)
""",
    "opentelemetry/trace/__init__.py": """
import contextlib, types
from opentelemetry import context as context_api
class SpanContext:
    def __init__(self, span_id): self.trace_id, self.span_id = 7, span_id
    trace_flags = types.SimpleNamespace(sampled=True)
class Span:
    context = SpanContext(0)
    def get_span_context(self): return self.context
def get_current_span(context=None):
    return context if context is not None else context_api.get_current() or Span()
def set_span_in_context(span): return span
@contextlib.contextmanager
def use_span(span, end_on_exit=False):
    token = context_api.attach(span)
    try: yield span
    finally:
        context_api.detach(token)
        if end_on_exit: span.end()
""",
    "opentelemetry/sdk/__init__.py": "",
    "opentelemetry/sdk/trace/__init__.py": """
import contextlib, itertools
from opentelemetry import trace as trace_api
class SpanProcessor: pass
class SynchronousMultiSpanProcessor(SpanProcessor):
    def __init__(self): self.all = ()
    def on_start(self, span, parent_context=None):
        for one in self.all: one.on_start(span, parent_context=parent_context)
    def on_end(self, span):
        for one in self.all: one.on_end(span)
class ConcurrentMultiSpanProcessor(SynchronousMultiSpanProcessor): pass
class Span(trace_api.Span):
    numbers = itertools.count(1)
    def __init__(self, name, processor):
        self.name, self.processor, self.context = name, processor, trace_api.SpanContext(next(self.numbers))
    def start(self): self.processor.on_start(self, parent_context=None)
    def end(self):
        processor, self.processor = self.processor, None
        if processor is not None: processor.on_end(self)
class Tracer:
    def __init__(self, processor): self.processor = processor
    @contextlib.contextmanager
    def start_as_current_span(self, name, end_on_exit=True):
        span = self.start_span(name)
        with trace_api.use_span(span, end_on_exit=end_on_exit) as span:
            yield span
    def start_span(self, name):
        span = Span(name, self.processor)
        span.start()
        return span
class TracerProvider:
    def __init__(self, active_span_processor=None):
        self._active_span_processor = active_span_processor or SynchronousMultiSpanProcessor()
    def add_span_processor(self, one): self._active_span_processor.all += (one,)
    def get_tracer(self): return Tracer(self._active_span_processor)
""",
}


def install():
    folder = tempfile.mkdtemp(prefix="guestscope-fakes-")
    atexit.register(shutil.rmtree, folder, True)
    for path, text in FILES.items():
        path = os.path.join(folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
    sys.path.insert(0, folder)


install()
