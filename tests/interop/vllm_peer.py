#!/usr/bin/env python3
"""vLLM's CPU build: loads what the others make. See peer.py for the arguments."""

import json
import os

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import peer  # noqa: E402

TOP = 64  # of the log-probabilities after each token; more than pagoda is asked for


def main():
    options = peer.arguments()
    import numpy
    import vllm

    ids = json.loads(options.ids.read_text())
    dtype = "float32" if options.float32 else "bfloat16"
    model = vllm.LLM(
        options.folder,
        dtype=dtype,
        max_model_len=len(ids) + 8,
        max_logprobs=TOP,
        enforce_eager=True,
        enable_prefix_caching=False,
    )
    sampling = vllm.SamplingParams(
        max_tokens=1, temperature=0, prompt_logprobs=TOP, logprobs=TOP, detokenize=False
    )
    answer = model.generate({"prompt_token_ids": ids}, sampling, use_tqdm=False)[0]
    rows = [*answer.prompt_logprobs[1:], answer.outputs[0].logprobs[0]]
    scores = numpy.full((len(ids), max(map(max, rows)) + 1), numpy.nan, numpy.float32)  # nan: not told
    for row, found in zip(scores, rows):
        for token, value in found.items():
            row[token] = value.logprob
    numpy.save(options.out, scores)
    print(f"vllm {vllm.__version__}: {dtype}")


if __name__ == "__main__":
    main()
