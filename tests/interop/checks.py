#!/usr/bin/env python3
"""Makes each folder, compares, prints the table; ends with 1 if a row is beyond its limit. Run by `run`."""

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CACHE = pathlib.Path(os.environ.get("PAGODA_CACHE") or pathlib.Path.home() / ".cache" / "pagoda")
SCRIPTS = {
    "gptqmodel": HERE / "gptqmodel" / "peer.py",
    "llmcompressor": HERE / "llmcompressor" / "peer.py",
    "vllm": HERE / "vllm_peer.py",
}
# Nats. Both sides in float32 differ by the order of their sums only; vLLM's kernels round inputs.
EXACT = 2e-3
KL_OF_KERNELS = 0.05


@dataclasses.dataclass
class Check:
    maker: str  # "pagoda", or the peer that makes the folder
    recipe: tuple  # flags of `pagoda quantize`, or the peer's name for it
    peers: tuple  # who loads it beside pagoda

    def name(self):
        return "-".join([self.maker, *self.recipe]).replace("--", "").replace(" ", "-")


OURS = ("gptqmodel", "vllm")
CHECKS = [
    Check("pagoda", ("rtn",), OURS),
    Check("pagoda", ("gptq", "--asym"), ("gptqmodel",)),  # zero points: vLLM refuses them
    Check("pagoda", ("gptq",), OURS),
    Check("pagoda", ("gptq", "--desc-act"), ("gptqmodel",)),  # vLLM has no act-order any more
    Check("pagoda", ("gptq", "--bits", "8"), OURS),
    Check("pagoda", ("awq",), OURS),
    Check("pagoda", ("int8",), ("llmcompressor", "vllm")),
    Check("gptqmodel", ("gptq-g64",), ("gptqmodel",)),
    Check("gptqmodel", ("gptq-desc-act-g64",), ("gptqmodel",)),
    Check("gptqmodel", ("gptq-asym-g64",), ("gptqmodel",)),
    Check("gptqmodel", ("awq-g64",), ("gptqmodel",)),
    Check("llmcompressor", ("w8a8-rtn",), ("llmcompressor",)),
    Check("llmcompressor", ("w4a16-rtn-g64",), ("llmcompressor",)),
]


def execute(*command):
    run = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if run.returncode != 0:
        raise RuntimeError((run.stdout + run.stderr).strip()[-1500:])
    return run.stdout


def float_folder(options):
    """SmolLM2 as floats, which both sides quantise."""
    folder = options.out / "source"
    if not folder.exists():
        gguf = execute(ROOT / "scripts" / "fetch_model", "smollm2-135m").strip().splitlines()[-1]
        execute(options.vllm, ROOT / "bench" / "race" / "make_bf16_folder", gguf, folder)
    return folder


def make(check, options):
    source, folder = float_folder(options), options.out / check.name()
    if (folder / "config.json").exists():
        return folder
    if check.maker == "pagoda":
        method, *flags = check.recipe
        groups = [] if method == "int8" else ["--group-size", "64"]
        samples = ["--samples", "32", "--sample-tokens", "256"] if method in ("gptq", "awq") else []
        execute(options.pagoda, "quantize", source, folder, "--method", method, *groups, *samples, *flags)
    else:
        text = ROOT / "ARCHITECTURE.md"
        execute(
            getattr(options, check.maker),
            SCRIPTS[check.maker],
            "quantize",
            source,
            folder,
            *check.recipe,
            text,
        )
    return folder


def compare(check, peer, options):
    folder = make(check, options)
    command = [sys.executable, HERE / "compare.py", "--pagoda", options.pagoda, "--folder", folder]
    command += [] if peer == "vllm" else ["--float32"]
    row = json.loads(execute(*command, "--peer", getattr(options, peer), SCRIPTS[peer]).splitlines()[-1])
    row["good"] = row["kl"] <= KL_OF_KERNELS if peer == "vllm" else row["of_top"] <= EXACT
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--pagoda", default=os.environ.get("PAGODA_BIN") or ROOT / "build" / "release" / "pagoda"
    )
    parser.add_argument("--out", type=pathlib.Path, default=CACHE / "interop")
    parser.add_argument("--only", default="", help="the checks whose name has this text")
    for peer in SCRIPTS:
        parser.add_argument("--" + peer, required=True, help="the Python of its environment")
    options = parser.parse_args()
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    bad = 0
    print("| folder | peer | text | top 20 | KL | greedy | |\n|---|---|---|---|---|---|---|", flush=True)
    for check in CHECKS:
        for peer in check.peers:
            if options.only not in f"{check.name()} {peer}":
                continue
            try:
                row = compare(check, peer, options)
            except (RuntimeError, ValueError) as error:
                bad += 1
                print(f"| {check.name()} | {peer} | failed: {error} |", flush=True)
                continue
            bad += not row["good"]
            figures = f"{row['of_text']:.1e} | {row['of_top']:.1e} | {row['kl']:.1e} | {row['greedy']}"
            verdict = "" if row["good"] else "beyond"
            print(f"| {check.name()} | {row['peer']} | {figures} | {verdict} |", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
