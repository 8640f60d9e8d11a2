#!/usr/bin/env python3
"""Drives two OpenAI-compatible servers with the same load, in turns, and prints the ratios.

    compare_servers.py --a NAME=URL [--b NAME=URL] [--workload NAME ...] [--rounds 3] [--json out.json]

Both servers must already be running with the same model file and the same number of threads. The rounds
alternate a, b, a, b, ... so that a slow minute of the machine hits both alike, and only one server is under
load at a time. Every figure is the median over the rounds; the ratio is a / b. A server whose threads spin
while it is idle must be raced alone, with the same --seed. Needs nothing beyond Python's standard library.

Units: throughput in tokens per second, latencies in milliseconds.
    ttft  time from sending a request to its first generated token
    itl   gap between two successive streamed tokens of one request
"""
import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from urllib.parse import urlparse

# One of these words is close to 1.1 tokens in the usual byte-level BPE vocabularies.
WORDS = """def return class self import for in if else elif while try except with as lambda yield from
not and or is None True False print range len list dict set tuple str int float open read write close
append pop sort sorted reverse map filter zip enumerate index count join split strip replace format
buffer cache queue stack node tree graph edge path user token block page request response server client
error value result total number string table column row key index name type size""".split()

AFTER_THE_FIRST = -1  # start offset of requests that wait until those with an offset >= 0 have ended
METRICS = ["requests", "prompt_tokens", "output_tokens", "wall_s", "output_tok_s", "total_tok_s",
           "ttft_p50_ms", "ttft_p99_ms", "itl_p50_ms", "itl_p99_ms"]


def text(rng, words):
    return " ".join(rng.choice(WORDS) for _ in range(words))


# A plan is a list of (start offset in s, prompt, max_tokens).
def single_decode(seed):
    return [(0, text(random.Random(seed), 30), 128)]


def prefill(seed):
    return [(0, text(random.Random(seed), 1500), 1)]


def batch(n):
    def plan(seed):
        rng = random.Random(seed)
        return [(0, text(rng, 460), 128) for _ in range(n)]
    return plan


def shared_prefix(seed):
    rng = random.Random(seed)
    head = text(rng, 1200)
    warm = [(0, head + " " + text(rng, 20), 1)]
    return warm + [(AFTER_THE_FIRST, head + " " + text(rng, 20), 16) for _ in range(16)]


def mixed(seed):
    rng = random.Random(seed)
    short = [(0, text(rng, 30), 160) for _ in range(4)]
    long = [(0.5 + 0.5 * i, text(rng, 1500), 1) for i in range(3)]
    return short + long


# name -> (what it shows, plan of a seed)
WORKLOADS = {
    "decode-1": ("one stream, 128 tokens out", single_decode),
    "prefill-1500": ("one long prompt, 1 token out", prefill),
    "batch-4": ("4 streams, about 512 in / 128 out", batch(4)),
    "batch-16": ("16 streams, about 512 in / 128 out", batch(16)),
    "batch-32": ("32 streams, about 512 in / 128 out", batch(32)),
    "shared-prefix": ("16 requests that share a 1,200-word prefix, 16 out", shared_prefix),
    "mixed": ("4 running streams while long prompts arrive", mixed),
}


async def complete(base, prompt, max_tokens, model):
    """One streamed completion. Returns (ttft ms, [itl ms], completion tokens, prompt tokens)."""
    url = urlparse(base)
    body = json.dumps({"model": model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0,
                       "stream": True, "ignore_eos": True,
                       "stream_options": {"include_usage": True}}).encode()
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    start = time.perf_counter()
    writer.write((f"POST {url.path.rstrip('/')}/v1/completions HTTP/1.1\r\nHost: {url.netloc}\r\n"
                  f"Connection: close\r\nContent-Type: application/json\r\n"
                  f"Content-Length: {len(body)}\r\n\r\n").encode() + body)
    await writer.drain()
    status = await reader.readline()
    if b" 200 " not in status:
        raise RuntimeError((status + await reader.read(2000)).decode(errors="replace"))
    first = last = None
    gaps, usage, chunks = [], None, 0
    while line := await reader.readline():
        if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
            continue
        event = json.loads(line[6:])
        if "error" in event:
            raise RuntimeError(f"{base}: {event['error']}")
        if event.get("usage"):
            usage = event["usage"]
        if event.get("choices"):
            now = time.perf_counter()
            if first is None:
                first = now
            else:
                gaps.append((now - last) * 1e3)
            last = now
            chunks += 1
    writer.close()
    if first is None:
        raise RuntimeError(f"{base}: the stream ended without a token")
    usage = usage or {"completion_tokens": chunks, "prompt_tokens": 0}
    return (first - start) * 1e3, gaps, usage["completion_tokens"], usage["prompt_tokens"]


async def drive(base, plan, model):
    """Runs one plan against one server and gives its METRICS."""
    async def one(delay, prompt, max_tokens):
        await asyncio.sleep(delay)
        return await complete(base, prompt, max_tokens, model)
    start = time.perf_counter()
    results = await asyncio.gather(*(one(*request) for request in plan if request[0] != AFTER_THE_FIRST))
    after = [request for request in plan if request[0] == AFTER_THE_FIRST]
    if after:  # what came before only warmed the server up
        start = time.perf_counter()
        results = await asyncio.gather(*(one(0, prompt, max_tokens) for _, prompt, max_tokens in after))
    wall = time.perf_counter() - start
    ttft = sorted(result[0] for result in results)
    gaps = sorted(gap for result in results for gap in result[1])
    out = sum(result[2] for result in results)
    prompt = sum(result[3] for result in results)
    return {"requests": len(results), "wall_s": wall, "prompt_tokens": prompt, "output_tokens": out,
            "output_tok_s": out / wall, "total_tok_s": (out + prompt) / wall,
            "ttft_p50_ms": quantile(ttft, .5), "ttft_p99_ms": quantile(ttft, .99),
            "itl_p50_ms": quantile(gaps, .5), "itl_p99_ms": quantile(gaps, .99)}


def quantile(values, q):
    return values[min(len(values) - 1, int(q * len(values)))] if values else float("nan")


def compare(servers, models, workload, rounds, seed):
    """One workload on every server {name: url} in turns. Returns {name: [metrics of each round]}."""
    plan = WORKLOADS[workload][1]
    runs = {name: [] for name in servers}
    for number in range(rounds):
        for name, url in servers.items():
            runs[name].append(asyncio.run(drive(url, plan(seed + number), models[name])))
    return runs


def medians(runs):
    return {name: {metric: statistics.median(run[metric] for run in rounds) for metric in METRICS}
            for name, rounds in runs.items()}


def print_workload(workload, figures):
    print(f"\n{workload}: {WORKLOADS[workload][0]}")
    for metric in METRICS:
        row = [figure[metric] for figure in figures.values()]
        ratio = f"{row[0] / row[1]:10.2f}x" if len(row) == 2 and row[1] else ""
        print(f"  {metric:14s}" + "".join(f"{value:14.1f}" for value in row) + ratio)
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--a", required=True, metavar="NAME=URL")
    parser.add_argument("--b", metavar="NAME=URL")
    parser.add_argument("--model", default="default",
                        help="model name sent in each request (NAME:MODEL,NAME:MODEL if they differ)")
    parser.add_argument("--workload", action="append", choices=list(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=int(time.time()),
                        help="prompts are fresh each run, so that no prefix cache is warm by accident")
    parser.add_argument("--json")
    args = parser.parse_args()
    servers = dict(server.split("=", 1) for server in (args.a, args.b) if server)
    if ":" in args.model:
        models = dict(model.split(":", 1) for model in args.model.split(","))
    else:
        models = {name: args.model for name in servers}
    report = {}
    for workload in args.workload or WORKLOADS:
        report[workload] = medians(compare(servers, models, workload, args.rounds, args.seed))
        print_workload(workload, report[workload])
    print("\ncolumns: " + ", ".join(servers) + (", ratio first/second" if len(servers) == 2 else ""))
    if args.json:
        with open(args.json, "w") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
