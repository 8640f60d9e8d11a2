#!/usr/bin/env python3
"""Compares the log-probabilities of pagoda and of a peer on one folder; run by `run`.

    compare.py --pagoda BINARY --folder FOLDER --out ROW.json --peer COMMAND... [--float32]

The tokens are a text and what pagoda answers to it greedily, so that one pass of the peer over all of them
also tells whether it would have answered the same.
"""

import argparse
import json
import pathlib
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import numpy

TEXT = (
    "A hash table maps keys to values. It computes an index from the key, and looks for the value in the "
    "bucket of that index. Two keys can have the same index; then the table has to look at both. In Python, "
    "this is:\n\n"
    "def lookup(table, key):\n    bucket = table[hash(key) % len(table)]\n    for other, value in bucket:\n"
    "        if other == key:\n            return value\n    raise KeyError(key)\n\n"
    "The time that this takes depends on"
)
NEW_TOKENS = 32
TOP = 20
READY_SECONDS = 300


class Pagoda:
    def __init__(self, binary, folder, *flags):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.log = tempfile.NamedTemporaryFile("w+b", suffix=".log")
        command = [
            binary,
            "serve",
            folder,
            "--port",
            str(port),
            "--served-model-name",
            "m",
            "--max-model-len",
            "512",
        ]
        self.process = subprocess.Popen([*command, *flags], stdout=self.log, stderr=subprocess.STDOUT)

    def __enter__(self):
        end = time.monotonic() + READY_SECONDS
        while self.process.poll() is None and time.monotonic() < end:
            try:
                urllib.request.urlopen(self.url + "/health", timeout=5).close()
                return self
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        self.__exit__()
        raise RuntimeError("pagoda does not serve it: " + pathlib.Path(self.log.name).read_text().strip())

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def post(self, route, **fields):
        body = json.dumps({"model": "m", **fields}).encode()
        request = urllib.request.Request(self.url + route, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def scores(self):
        """The ids of the text and the answer, and after each but the last the log-probabilities of ids."""
        ids = self.post("/tokenize", prompt=TEXT)["tokens"]
        greedy = {"max_tokens": NEW_TOKENS, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
        ids += self.post("/v1/completions", prompt=ids, **greedy)["choices"][0]["token_ids"]
        found = self.post("/v1/completions", prompt=ids, max_tokens=1, prompt_logprobs=TOP)["choices"][0]
        rows = [
            {int(t): entry["logprob"] for t, entry in row.items()} for row in found["prompt_logprobs"][1:]
        ]
        return ids, rows


def compare(ids, rows, peer):
    """What differs between the rows of pagoda and the peer's array [tokens, vocabulary]."""
    of_text, of_top, kl, greedy = [], [], [], 0
    for at, row in enumerate(rows):
        known = {token: float(peer[at, token]) for token in row if token < peer.shape[1]}
        known = {token: value for token, value in known.items() if not numpy.isnan(value)}
        of_text.append(abs(row[ids[at + 1]] - known.get(ids[at + 1], numpy.nan)))
        of_top.append(max(abs(row[token] - value) for token, value in known.items()))
        kl.append(sum(numpy.exp(value) * (value - row[token]) for token, value in known.items()))
        if at >= len(rows) - NEW_TOKENS:
            greedy += int(numpy.nanargmax(peer[at])) == ids[at + 1]
    return {
        "tokens": len(rows),
        "of_text": float(numpy.nanmax(of_text)),
        "mean": float(numpy.nanmean(of_text)),
        "of_top": float(max(of_top)),
        "kl": float(numpy.mean(kl)),
        "greedy": f"{greedy}/{NEW_TOKENS}",
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pagoda", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--float32", action="store_true", help="neither side rounds its inputs")
    parser.add_argument("--peer", nargs="+", required=True)
    options = parser.parse_args()
    flags = ["--dtype", "float32"] if options.float32 else []
    with Pagoda(options.pagoda, options.folder, *flags) as pagoda:
        ids, rows = pagoda.scores()
    with tempfile.TemporaryDirectory() as scratch:
        asked, out = pathlib.Path(scratch, "ids.json"), pathlib.Path(scratch, "scores.npy")
        asked.write_text(json.dumps(ids))
        command = [*options.peer, "score", options.folder, asked, out]
        command += ["--float32"] if options.float32 else []
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, command))}\n{run.stdout[-1500:]}\n{run.stderr[-3000:]}")
        row = {"peer": run.stdout.strip().splitlines()[-1], **compare(ids, rows, numpy.load(out))}
    print(json.dumps(row))


if __name__ == "__main__":
    main()
