#!/usr/bin/env python3
"""llm-compressor and compressed-tensors: W8A8 and W4A16 folders. See ../peer.py for the arguments."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import peer  # noqa: E402

import compressed_tensors  # noqa: E402
import torch  # noqa: E402
from compressed_tensors.quantization import disable_quantization  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402
from transformers.utils.quantization_config import CompressedTensorsConfig  # noqa: E402


def load(folder, exact):
    model = AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=torch.float32,
        attn_implementation="eager",
        quantization_config=CompressedTensorsConfig(run_compressed=False),
    )
    if exact:
        model.apply(disable_quantization)  # of the inputs: the weights are floats by now
    kind = "weights only" if exact else "inputs rounded as the folder says"
    print(f"compressed-tensors {compressed_tensors.__version__}: {kind}, float32")
    return model.eval()


def quantize(options):
    from compressed_tensors.quantization import preset_name_to_scheme
    from datasets import Dataset
    from llmcompressor import oneshot
    from llmcompressor.modifiers.quantization import GPTQModifier, QuantizationModifier

    name, method, *group = options.variant.split("-")
    scheme = preset_name_to_scheme(name.upper(), ["Linear"])
    if group:
        scheme.weights.group_size = int(group[0].removeprefix("g"))
    kind = GPTQModifier if method == "gptq" else QuantizationModifier
    recipe = kind(config_groups={"group_0": scheme}, ignore=["lm_head"])
    tokenizer = AutoTokenizer.from_pretrained(options.folder)
    model = AutoModelForCausalLM.from_pretrained(options.folder, dtype="auto")
    samples = peer.calibration_ids(tokenizer, options.calibration)
    data = Dataset.from_dict({"input_ids": samples, "attention_mask": [[1] * len(s) for s in samples]})
    oneshot(
        model=model,
        dataset=data,
        recipe=recipe,
        max_seq_length=peer.SAMPLE_TOKENS,
        num_calibration_samples=len(samples),
    )
    model.save_pretrained(options.out, save_compressed=True)
    tokenizer.save_pretrained(options.out)


def main():
    options = peer.arguments()
    if options.command == "score":
        peer.save_scores(load(options.folder, options.float32), options)
    else:
        quantize(options)


if __name__ == "__main__":
    main()
