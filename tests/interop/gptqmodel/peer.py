#!/usr/bin/env python3
"""GPTQModel: makes and loads GPTQ and AWQ folders. See ../peer.py for the arguments."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")  # it can't quantise with the one it gives two cores
os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")  # compiling takes longer than all else
import peer  # noqa: E402

import torch  # noqa: E402
from gptqmodel import BACKEND, GPTQModel  # noqa: E402
from gptqmodel.nn_modules.qlinear import BaseQuantLinear  # noqa: E402
from gptqmodel.nn_modules.qlinear.torch_awq import AwqTorchLinear  # noqa: E402
from gptqmodel.quantization.awq.utils.packing_utils import dequantize_gemm  # noqa: E402
from gptqmodel.quantization.config import AWQConfig, GPTQConfig  # noqa: E402
from gptqmodel.version import __version__  # noqa: E402
from transformers import AutoConfig  # noqa: E402

VARIANTS = {
    "gptq": lambda group: GPTQConfig(bits=4, group_size=group, sym=True, desc_act=False),
    "gptq-desc-act": lambda group: GPTQConfig(bits=4, group_size=group, sym=True, desc_act=True),
    "gptq-asym": lambda group: GPTQConfig(bits=4, group_size=group, sym=False, desc_act=False),
    "gptq-8bit": lambda group: GPTQConfig(bits=8, group_size=group, sym=True, desc_act=False),
    "gptq-v2": lambda group: GPTQConfig(bits=4, group_size=group, sym=False, format="gptq_v2"),
    "awq": lambda group: AWQConfig(bits=4, group_size=group, sym=False, format="gemm"),
}


def with_floats(model):
    """AWQ's kernels round to 16 bits whatever they get: matrices of what the library reads instead."""
    for name, module in list(model.named_modules()):
        if not isinstance(module, AwqTorchLinear):
            continue
        codes = (module.qweight, module.qzeros, module.scales.float(), module.bits, module.group_size)
        weight = dequantize_gemm(*codes).t().contiguous()
        linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=module.bias is not None)
        linear.weight.data = weight
        if module.bias is not None:
            linear.bias.data = module.bias.float()
        model.set_submodule(name, linear)
    return model.float()


def load(folder, exact):
    method = AutoConfig.from_pretrained(folder).quantization_config["quant_method"]
    # With float32 arithmetic the kernel that dequantises and multiplies; else the one it takes by itself.
    backend = BACKEND.AUTO
    if exact:
        backend = BACKEND.AWQ_TORCH if method == "awq" else BACKEND.GPTQ_TORCH
    model = GPTQModel.load(folder, backend=backend, device="cpu", dtype=torch.float16 if exact else "auto")
    kernels = {type(m).__name__ for m in model.model.modules() if isinstance(m, BaseQuantLinear)}
    if exact:
        model.model = with_floats(model.model)
    print(f"gptqmodel {__version__}: {', '.join(sorted(kernels))} {next(model.model.parameters()).dtype}")
    return model.model.eval()


def main():
    options = peer.arguments()
    if options.command == "score":
        peer.save_scores(load(options.folder, options.float32), options)
        return
    variant, group = options.variant.rsplit("-g", 1)
    model = GPTQModel.load(options.folder, VARIANTS[variant](int(group)), device="cpu")
    samples = peer.calibration_ids(model.tokenizer, options.calibration)
    model.quantize(samples, batch_size=1)
    model.save(options.out)


if __name__ == "__main__":
    main()
