"""The table of all wrapped attributes: module, attribute, and the function in `hooks` that wraps it.

A line is `module attribute kind`. An attribute that some versions lack ends in `?`; `*` is the module itself.
The table is a text and not a tuple, because Python may compile this file at every start.
"""

TABLE = """
# Requests: ASGI
uvicorn.protocols.http.h11_impl        RequestResponseCycle.run_asgi       asgi.uvicorn_cycle
uvicorn.protocols.http.h11_impl        RequestResponseCycle.send           asgi.uvicorn_send
uvicorn.protocols.http.h11_impl        H11Protocol.on_response_complete    asgi.uvicorn_complete
uvicorn.protocols.http.httptools_impl  RequestResponseCycle.run_asgi       asgi.uvicorn_cycle
uvicorn.protocols.http.httptools_impl  RequestResponseCycle.send           asgi.uvicorn_send
uvicorn.protocols.http.httptools_impl  HttpToolsProtocol.on_response_complete  asgi.uvicorn_complete
hypercorn.asyncio.task_group           _handle                             asgi.hypercorn_handle
hypercorn.trio.task_group              _handle                             asgi.hypercorn_handle
starlette.applications                 Starlette.__call__                  asgi.application
starlette.routing                      Route.matches                       asgi.starlette_route
starlette.routing                      Mount.matches                       asgi.starlette_mount
fastapi.routing                        _route_selected?                    asgi.fastapi_selected
fastapi.routing                        run_endpoint_function?              asgi.fastapi_endpoint
starlette.background                   BackgroundTask.__call__             asgi.background
quart.ctx                              RequestContext.match_request?       web.quart_route
falcon.app                             App._get_responder?                 web.falcon_route
litestar.app                           Litestar.__call__                   asgi.application
quart.app                              Quart.__call__                      asgi.application
django.core.handlers.asgi              ASGIHandler.__call__                asgi.application
ray.serve._private.proxy               HTTPProxy.setup_request_context_and_handle?  asgi.ray_proxy
# Requests: WSGI
gunicorn.http.wsgi                     Response.start_response             wsgi.status
gunicorn.workers.sync                  SyncWorker.handle_request           wsgi.gunicorn_sync
gunicorn.workers.gthread               ThreadWorker.handle_request         wsgi.gunicorn_thread
gunicorn.workers.base_async            AsyncWorker.handle_request          wsgi.gunicorn_async
wsgiref.handlers                       BaseHandler.run                     wsgi.wsgiref_run
wsgiref.handlers                       BaseHandler.start_response          wsgi.status
werkzeug.serving                       WSGIRequestHandler.run_wsgi         wsgi.werkzeug_run
werkzeug.serving                       WSGIRequestHandler.send_response    wsgi.status
waitress.task                          WSGITask.execute                    wsgi.waitress_execute
waitress.task                          Task.build_response_header          wsgi.waitress_status
gevent.pywsgi                          WSGIHandler.handle_one_response     wsgi.gevent_response
gevent.pywsgi                          WSGIHandler.start_response          wsgi.status
eventlet.wsgi                          HttpProtocol.handle_one_response    wsgi.eventlet_response
cheroot.wsgi                           Gateway.respond                     wsgi.cheroot_respond
cheroot.wsgi                           Gateway.start_response              wsgi.status
bottle                                 Router.match                        web.bottle_route
flask.app                              Flask.__call__                      wsgi.application
flask.ctx                              AppContext.match_request?           wsgi.flask_route
flask.ctx                              RequestContext.match_request?       wsgi.flask_route
django.core.handlers.wsgi              WSGIHandler.__call__                wsgi.application
django.core.handlers.base              BaseHandler.resolve_request         wsgi.django_route
# Requests: others
http.server                            BaseHTTPRequestHandler.handle_one_request  web.stdlib_handle
http.server                            BaseHTTPRequestHandler.parse_request  web.stdlib_parse
http.server                            BaseHTTPRequestHandler.send_response_only  wsgi.status
tornado.web                            RequestHandler._execute             web.tornado_execute
tornado.routing                        PathMatches.match                   web.tornado_match
sanic.app                              Sanic.handle_request                web.sanic_handle
sanic.router                           Router.get?                         web.sanic_route
sanic.touchup.service                  TouchUp.run?                        web.sanic_touched
grpclib.server                         request_handler                     rpc.grpclib_handle
grpclib.server                         Stream.send_trailing_metadata       rpc.grpclib_status
aiohttp.web_protocol                   RequestHandler._handle_request      aio.aiohttp_handle
celery.app.trace                       trace_task?                         jobs.celery_task
celery.app.trace                       fast_trace_task?                    jobs.celery_fast
grpc._server                           _unary_response_in_pool             rpc.in_pool
grpc._server                           _stream_response_in_pool            rpc.in_pool
grpc._server                           _find_method_handler?               rpc.found
grpc.aio._server                       Server.add_generic_rpc_handlers     rpc.aio_handlers
grpc.aio._server                       Server.add_registered_method_handlers?  rpc.aio_registered
# A request's environment
opentelemetry.instrumentation.auto_instrumentation  execl                  start.keep_path
# Work
torch.nn.modules.module                Module.__call__                     torch.module
torch.nn.modules.module                Module.to                           torch.move
torch.nn.modules.module                Module.cuda                         torch.move
torch.nn.modules.module                Module.cpu                          torch.move
torch.autograd                         backward                            torch.backward
torch.optim.optimizer                  Optimizer.profile_hook_step         torch.optimizer
torch.cuda                             synchronize                         torch.synchronize
torch.cuda.nvtx                        range_push                          loop.marked_elsewhere
torch._dynamo.eval_frame               *                                   torch.dynamo
torch.utils.data.dataloader            _BaseDataLoaderIter.__next__        torch_data.data
torch.utils.data.dataloader            _MultiProcessingDataLoaderIter._reset  torch_data.reset
torch.utils.data._utils.fetch          _MapDatasetFetcher.fetch            torch_data.fetch
torch.utils.data._utils.fetch          _IterableDatasetFetcher.fetch       torch_data.fetch
onnxruntime.capi.onnxruntime_inference_collection  Session.run             onnx.run
onnxruntime.capi.onnxruntime_inference_collection  Session.run_async?      onnx.run_async
onnxruntime.capi.onnxruntime_inference_collection  Session.run_with_iobinding?  onnx.run
onnxruntime.capi.onnxruntime_inference_collection  Session.run_with_ort_values?  onnx.run
onnxruntime.capi.onnxruntime_inference_collection  Session.run_with_ortvaluevector?  onnx.run
transformers.generation.utils          GenerationMixin.generate            transformers.generate
transformers.trainer                   Trainer.training_step               transformers.training_step
pytorch_lightning.strategies.strategy  Strategy.training_step              lightning.step
pytorch_lightning.strategies.strategy  Strategy.validation_step            lightning.step
pytorch_lightning.strategies.strategy  Strategy.test_step                  lightning.step
pytorch_lightning.strategies.strategy  Strategy.predict_step               lightning.step
lightning.pytorch.strategies.strategy  Strategy.training_step              lightning.step
lightning.pytorch.strategies.strategy  Strategy.validation_step            lightning.step
lightning.pytorch.strategies.strategy  Strategy.test_step                  lightning.step
lightning.pytorch.strategies.strategy  Strategy.predict_step               lightning.step
sklearn.base                           *                                   sklearn.estimators
joblib.parallel                        BatchedCalls.__call__               sklearn.batch
mlperf_loadgen                         *                                   loadgen.library
vllm.v1.engine.core                    EngineCore.step                     engines.step
vllm.v1.engine.core                    EngineCore.step_with_batch_queue?   engines.step
vllm.v1.engine.async_llm               AsyncLLM.generate                   vllm.generate
vllm.v1.engine.async_llm               AsyncLLM.encode?                    vllm.generate
vllm.renderers.base                    BaseRenderer.render_cmpl_async?     vllm.render
vllm.renderers.base                    BaseRenderer.render_chat_async?     vllm.render
vllm.v1.engine.core_client             AsyncMPClient.add_request_async     vllm.hand_over_async
vllm.v1.engine.core_client             DPAsyncMPClient.add_request_async?  vllm.hand_over_async
vllm.v1.engine.core_client             SyncMPClient.add_request?           vllm.hand_over
vllm.v1.engine.core_client             InprocClient.add_request?           vllm.hand_over
vllm.v1.core.sched.scheduler           Scheduler.add_request               vllm.arrives
vllm.v1.core.sched.scheduler           Scheduler.schedule                  vllm.schedule
vllm.v1.core.sched.scheduler           Scheduler.update_from_output        vllm.output
vllm.v1.core.sched.scheduler           Scheduler.finish_requests           vllm.finish
vllm.v1.worker.gpu_model_runner        GPUModelRunner.execute_model        vllm.execute
vllm.v1.worker.gpu_model_runner        GPUModelRunner.sample_tokens?       vllm.sample
vllm.v1.worker.gpu_model_runner        GPUModelRunner.profile_run?         vllm.warm_up
vllm.v1.worker.gpu_model_runner        GPUModelRunner._dummy_run?          vllm.warm_up
vllm.v1.worker.gpu_model_runner        GPUModelRunner._dummy_sampler_run?  vllm.warm_up
vllm.v1.worker.gpu.model_runner        GPUModelRunner.execute_model        vllm.execute
vllm.v1.worker.gpu.model_runner        GPUModelRunner.sample_tokens?       vllm.sample
vllm.v1.worker.gpu.model_runner        GPUModelRunner.profile_run?         vllm.warm_up
vllm.v1.worker.gpu.model_runner        GPUModelRunner._dummy_run?          vllm.warm_up
vllm.v1.worker.gpu.model_runner        GPUModelRunner._dummy_sampler_run?  vllm.warm_up
vllm.v1.executor.multiproc_executor    FutureWrapper.result?               vllm.wait
sglang.srt.managers.scheduler          Scheduler.run_batch                 engines.run_batch
sglang.srt.managers.scheduler          Scheduler.process_batch_result      engines.output
keras.src.backend.tensorflow.trainer   TensorFlowTrainer.fit               keras.outer
keras.src.backend.tensorflow.trainer   TensorFlowTrainer.evaluate          keras.outer
keras.src.backend.tensorflow.trainer   TensorFlowTrainer.predict           keras.outer
keras.src.backend.torch.trainer        TorchTrainer.fit                    keras.outer
keras.src.backend.torch.trainer        TorchTrainer.evaluate               keras.outer
keras.src.backend.torch.trainer        TorchTrainer.predict                keras.outer
keras.src.backend.jax.trainer          JAXTrainer.fit                      keras.outer
keras.src.backend.jax.trainer          JAXTrainer.evaluate                 keras.outer
keras.src.backend.jax.trainer          JAXTrainer.predict                  keras.outer
keras.src.callbacks.callback_list      CallbackList.on_train_batch_begin   keras.begin
keras.src.callbacks.callback_list      CallbackList.on_train_batch_end     keras.end
keras.src.callbacks.callback_list      CallbackList.on_test_batch_begin    keras.begin
keras.src.callbacks.callback_list      CallbackList.on_test_batch_end      keras.end
keras.src.callbacks.callback_list      CallbackList.on_predict_batch_begin  keras.begin
keras.src.callbacks.callback_list      CallbackList.on_predict_batch_end   keras.end
# The program's own marks, and spans
guestscope                             *                                   collector.watch
opentelemetry.sdk.trace                TracerProvider.__init__             otel.provider
opentelemetry.context.contextvars_context  ContextVarsRuntimeContext.attach  otel.attach
opentelemetry.context.contextvars_context  ContextVarsRuntimeContext.detach  otel.detach
"""


def rows():
    """(module, attribute, kind) of each line."""
    lines = (line.split() for line in TABLE.splitlines())
    return [tuple(line) for line in lines if len(line) == 3 and line[0] != "#"]
