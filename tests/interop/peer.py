"""What the peers have in common: the arguments of their scripts, and scores by a model of transformers.

PEER.py score FOLDER IDS.json OUT.npy [--float32]    log-probabilities of all tokens after each of the ids
PEER.py quantize FOLDER OUT VARIANT CALIBRATION.txt
"""

import argparse
import json
import pathlib

SAMPLES = 16
SAMPLE_TOKENS = 128


def arguments():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    score = commands.add_parser("score")
    score.add_argument("folder")
    score.add_argument("ids", type=pathlib.Path)
    score.add_argument("out")
    score.add_argument("--float32", action="store_true", help="the peer's codes, but float32 arithmetic")
    quantize = commands.add_parser("quantize")
    quantize.add_argument("folder")
    quantize.add_argument("out")
    quantize.add_argument("variant")
    quantize.add_argument("calibration", type=pathlib.Path)
    return parser.parse_args()


def calibration_ids(tokenizer, path):
    ids = tokenizer(path.read_text(), add_special_tokens=False)["input_ids"]
    samples = [ids[i : i + SAMPLE_TOKENS] for i in range(0, len(ids) - SAMPLE_TOKENS, SAMPLE_TOKENS)]
    return samples[:SAMPLES]


def save_scores(model, options):
    import numpy
    import torch

    ids = torch.tensor([json.loads(options.ids.read_text())])
    with torch.inference_mode():
        logits = model(input_ids=ids).logits[0]
    numpy.save(options.out, torch.log_softmax(logits.float(), dim=-1).numpy())
