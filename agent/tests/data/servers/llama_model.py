"""A Llama model with random weights in llama.cpp's format: `write(path)`. Small enough to be made for a test,
large enough for steps of milliseconds. `Decoder` calls llama.cpp's C functions with it."""

import time

WIDTH, WITHIN, HEADS, LAYERS, CONTEXT = 256, 768, 4, 4, 512


def write(path):
    import gguf
    import numpy

    numbers = numpy.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    tokens = [b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % byte for byte in range(256)] + [b"a", b"b", b"c"]
    kind = gguf.TokenType
    kinds = [kind.UNKNOWN, kind.CONTROL, kind.CONTROL] + [kind.BYTE] * 256 + [kind.NORMAL] * 3
    writer.add_name("random")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(WITHIN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([int(kind) for kind in kinds])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)

    def tensor(name, *shape):
        values = numbers.normal(0, 0.05, shape) if len(shape) > 1 else numpy.ones(shape)
        writer.add_tensor(name + ".weight", values.astype(numpy.float32))

    tensor("token_embd", len(tokens), WIDTH)
    for layer in range(LAYERS):
        own = "blk.%d." % layer
        tensor(own + "attn_norm", WIDTH)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensor(own + name, WIDTH, WIDTH)
        tensor(own + "ffn_norm", WIDTH)
        tensor(own + "ffn_gate", WITHIN, WIDTH)
        tensor(own + "ffn_up", WITHIN, WIDTH)
        tensor(own + "ffn_down", WIDTH, WITHIN)
    tensor("output_norm", WIDTH)
    tensor("output", len(tokens), WIDTH)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Decoder:
    """A model with any number of contexts."""

    def __init__(self, path):
        import llama_cpp

        llama_cpp.llama_backend_init()
        parameters = llama_cpp.llama_model_default_params()
        self._model = llama_cpp.llama_model_load_from_file(path.encode(), parameters)
        self._library, self._kept = llama_cpp, []

    def context(self, inside=None):
        """A context for one thread. Each call invokes `inside()` often, on the calling thread, whether to
        stop."""
        parameters = self._library.llama_context_default_params()
        parameters.n_ctx, parameters.n_threads, parameters.n_threads_batch = CONTEXT, 1, 1
        if inside:
            callback = self._library.ggml_abort_callback(lambda data: inside())
            self._kept.append(callback)
            parameters.abort_callback = callback
        return self._library.llama_init_from_model(self._model, parameters)

    def clear(self, context):
        self._library.llama_memory_clear(self._library.llama_get_memory(context), True)

    def decode(self, context, tokens):
        """Start and end of the call, on CLOCK_MONOTONIC."""
        values = (self._library.llama_token * len(tokens))(*tokens)
        # The batch holds only the address of `tokens`.
        batch = self._library.llama_batch_get_one(values, len(tokens))
        begin = time.monotonic_ns()
        result = self._library.llama_decode(context, batch)
        end = time.monotonic_ns()
        assert result == 0, result
        return begin, end
