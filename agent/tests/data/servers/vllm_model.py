"""A tiny Llama of random weights with a tokenizer of its own, for vLLM: `vllm_model.py FOLDER` writes it
there."""

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = 512
TEXT = "the quick brown fox jumps over the lazy dog "

tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
alphabet = pre_tokenizers.ByteLevel.alphabet()
trainer = trainers.BpeTrainer(vocab_size=WORDS, special_tokens=["<unk>", "<s>", "</s>"], initial_alphabet=alphabet)
tokenizer.train_from_iterator([TEXT], trainer)
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>")
fast.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
fast.save_pretrained(sys.argv[1])
torch.manual_seed(1)
shape = LlamaConfig(
    vocab_size=WORDS,
    hidden_size=512,
    intermediate_size=1376,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=8,
    max_position_embeddings=1024,
)
LlamaForCausalLM(shape).save_pretrained(sys.argv[1])
