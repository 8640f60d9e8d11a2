"""The report of a race from its stored results: tables in Markdown, all figures in JSON, and plots in SVG."""
import json
import math
import statistics

import plots

# The figure that a workload is about, its name in the results, and whether more is better.
HEADLINES = {
    "decode-1": ("output tokens/s", "output_tok_s", True),
    "prefill-1500": ("TTFT, ms", "ttft_p50_ms", False),
    "batch-4": ("output tokens/s", "output_tok_s", True),
    "batch-16": ("output tokens/s", "output_tok_s", True),
    "batch-32": ("output tokens/s", "output_tok_s", True),
    "shared-prefix": ("p50 TTFT, ms", "ttft_p50_ms", False),
    "mixed": ("p99 ITL, ms", "itl_p99_ms", False),
}
DETAILS = [("output_tok_s", "output tokens/s"), ("total_tok_s", "all tokens/s"),
           ("ttft_p50_ms", "TTFT p50, ms"), ("ttft_p99_ms", "TTFT p99, ms"),
           ("itl_p50_ms", "ITL p50, ms"), ("itl_p99_ms", "ITL p99, ms")]
MEMORY, READY = "peak memory", "time to ready"

# What the project aims at: how many times better than the peer. Memory: the peer's share, at most.
LLAMA_AIMS = {
    "smollm2-135m-instruct-q4_1": {"decode-1": 3, "prefill-1500": 5, "batch-4": 4, "batch-16": 6,
                                   "batch-32": 6, "shared-prefix": 20, "mixed": 10, MEMORY: 1 / 0.7},
    "qwen2.5-coder-0.5b-instruct-q4_k_m": {"decode-1": 1.8, "prefill-1500": 3, "batch-4": 3, "batch-16": 4,
                                           "batch-32": 4, "shared-prefix": 15, "mixed": 10, MEMORY: 1 / 0.8},
    "qwen2.5-coder-1.5b-instruct-q4_k_m": {"decode-1": 1.4, "prefill-1500": 2, "batch-4": 2.5, "batch-16": 3,
                                           "batch-32": 3, "shared-prefix": 10, "mixed": 10, MEMORY: 1 / 0.9},
}
VLLM_AIMS = {
    "smollm2-135m-instruct-q4_1": {"decode-1": 10, "prefill-1500": 1.7, "batch-16": 2.5, "batch-32": 2.5,
                                   "shared-prefix": 5, "mixed": 8, MEMORY: 8, READY: 20},
}
BUSY_ALLOWANCE = 0.15  # beyond the share that the neighbour takes


def load(folder):
    """{model: {"about": ..., "results": {(entry, workload): result}}} of a folder of results."""
    models = {}
    for about in sorted(folder.glob("*/about.json")):
        results = {}
        for path in sorted(about.parent.glob("*--*.json")):
            entry, workload = path.stem.rsplit("--", 1)
            results[entry, workload] = json.loads(path.read_text())
        if results:
            models[about.parent.name] = {"about": json.loads(about.read_text()), "results": results}
    return models


def median_of(result, server, metric):
    return statistics.median(run[metric] for run in result["rounds"][server])


def entry_results(results, entry):
    return {workload: result for (name, workload), result in results.items() if name == entry}


def worst(values):
    return max((value for value in values if value == value), default=float("nan"))


def compare(ours, theirs, workload):
    """One row; its ratio is above 1 where pagoda is better. `ours` and `theirs` are (results, server)."""
    (our_results, our_name), (their_results, their_name) = ours, theirs
    if workload in HEADLINES:
        figure, metric, more_is_better = HEADLINES[workload]
        a = median_of(our_results[workload], our_name, metric)
        b = median_of(their_results[workload], their_name, metric)
    else:
        more_is_better = False
        field, figure = {MEMORY: ("peak_memory_mb", "MB"), READY: ("ready_s", "s")}[workload]
        a = worst(result[field][our_name] for result in our_results.values())
        b = worst(result[field][their_name] for result in their_results.values())
    ratio = (a / b if more_is_better else b / a) if a and b else float("nan")
    return {"workload": workload, "figure": figure, "pagoda": a, "peer": b, "ratio": ratio}


def rows_against(results, pairs, aims):
    """For each workload the comparison with every configuration of a peer, and with the best of them.

    pairs: {configuration: ((results, server) of pagoda, (results, server) of the peer)}
    """
    rows = []
    for workload in [*HEADLINES, MEMORY, READY]:
        compared = {}
        for config, (ours, theirs) in pairs.items():
            known = ours[0] and theirs[0] if workload in (MEMORY, READY) else \
                workload in ours[0] and workload in theirs[0]
            if known:
                compared[config] = compare(ours, theirs, workload)
        if not compared:
            continue
        # The better configuration is the one that leaves pagoda the smaller ratio.
        best = min(compared, key=lambda config: compared[config]["ratio"])
        rows.append({"workload": workload, "figure": compared[best]["figure"], "best": best,
                     "aim": aims.get(workload), "ratio": compared[best]["ratio"],
                     "pagoda": compared[best]["pagoda"],
                     "peer": {config: row["peer"] for config, row in compared.items()}})
    return rows


def llama_rows(model, results):
    pairs = {}
    for config in ("default", "no-repack", "speculative"):
        found = entry_results(results, f"llama-{config}")
        if found:
            pairs[config] = ((found, "pagoda"), (found, "llama-server"))
    return rows_against(results, pairs, LLAMA_AIMS.get(model, {}))


def vllm_rows(model, results):
    ours = entry_results(results, "alone-pagoda")
    pairs = {}
    for config in ("default", "iomp"):
        found = entry_results(results, f"alone-vllm-{config}")
        if found and ours:
            pairs[config] = ((ours, "pagoda"), (found, "vllm"))
    return rows_against(results, pairs, VLLM_AIMS.get(model, {}))


def busy_rows(results):
    rows = []
    for (entry, workload), result in results.items():
        if "busy" not in result:
            continue
        pairs = result["busy"]
        # Pairs of neighbouring runs are compared, and the median pair counts.
        falls = [1 - pair["busy_tok_s"] / pair["quiet_tok_s"] for pair in pairs]
        share = statistics.median(pair["neighbour_share"] for pair in pairs)
        rows.append({"server": entry.removeprefix("busy-"), "workload": workload,
                     "quiet": statistics.median(pair["quiet_tok_s"] for pair in pairs),
                     "busy": statistics.median(pair["busy_tok_s"] for pair in pairs),
                     "fall": statistics.median(falls), "share": share, "allowed": share + BUSY_ALLOWANCE})
    return rows


def number(value):
    if value is None or math.isnan(value):
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def times(value):
    return "-" if value is None else f"{number(value)}x"


def reached(row):
    if row["aim"] is None or math.isnan(row["ratio"]):
        return ""
    return "yes" if row["ratio"] >= row["aim"] else "no"


def race_table(rows, peer):
    configs = [config for config in dict.fromkeys(config for row in rows for config in row["peer"])]
    head = ["workload", "figure", "pagoda", *(f"{peer} {config}" for config in configs), "pagoda is better",
            "aim", "reached"]
    lines = ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * (len(head) - 3) + "---|"]
    for row in rows:
        cells = [row["workload"], row["figure"], number(row["pagoda"])]
        cells += [f"**{number(row['peer'].get(config))}**" if config == row["best"] and len(configs) > 1
                  else number(row["peer"].get(config)) for config in configs]
        cells += [times(row["ratio"]), times(row["aim"]), reached(row)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def busy_table(rows):
    lines = ["| server | workload | quiet, tokens/s | busy, tokens/s | fall | the neighbour took | "
             "allowed fall |",
             "|---|---|---:|---:|---:|---:|---:|"]
    for row in rows:
        cells = [row["server"], row["workload"], number(row["quiet"]), number(row["busy"])]
        cells += [f"{row[part]:.0%}" for part in ("fall", "share", "allowed")]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def detail_table(results):
    lines = ["| run | server | workload | " + " | ".join(title for _, title in DETAILS) + " |",
             "|---|---|---|" + "---:|" * len(DETAILS)]
    for (entry, workload), result in results.items():
        for server in result.get("rounds", {}):
            figures = [number(median_of(result, server, metric)) for metric, _ in DETAILS]
            lines.append(f"| {entry} | {server} | {workload} | " + " | ".join(figures) + " |")
    return lines


def conditions(model):
    results = model["results"].values()
    about = model["about"]
    dates = sorted({result["date"] for result in results})
    rounds = sorted({len(next(iter(result["rounds"].values()))) for result in results if "rounds" in result})
    seeds = sorted({str(result["seed"]) for result in results})
    loads = [result["load_average"] for result in results]
    days = " to ".join(dict.fromkeys([dates[0], dates[-1]]))
    return (f"pagoda {about['pagoda']}, {about['cpu']}, {about['threads']} threads, model "
            f"`{about['model']}`; {days}; medians of {', '.join(map(str, rounds))} rounds, seed "
            f"{', '.join(seeds)}; load average when a result was stored {min(loads):.1f} to {max(loads):.1f} "
            "(two busy threads make 2).")


def model_sections(name, model, figures):
    lines = [f"## {name}", "", conditions(model)]
    if figures["llama-server"]:
        lines += ["", "### Against llama-server", "",
                  "Bold: the configuration that does better, which is the one compared with. pagoda's figure "
                  "is from the rounds that alternate with it.", "",
                  *race_table(figures["llama-server"], "llama-server")]
    if figures["vllm"]:
        lines += ["", "### Against vLLM's CPU build", "",
                  "vLLM loads the same weights as bfloat16; each server ran alone, with the same prompts. "
                  "Time to ready is that of a first start.", "", *race_table(figures["vllm"], "vLLM")]
    if figures["busy"]:
        lines += ["", "### Beside a busy neighbour", "", "One process spins on one CPU.", "",
                  *busy_table(figures["busy"])]
    return lines + ["", "<details><summary>All figures</summary>", "", *detail_table(model["results"]), "",
                    "</details>", ""]


def write(out):
    """Writes report.md, report.json and the plots from OUT/results; nothing where there is nothing."""
    models = load(out / "results")
    if not models:
        return
    figures = {name: {"about": model["about"], "llama-server": llama_rows(name, model["results"]),
                      "vllm": vllm_rows(name, model["results"]), "busy": busy_rows(model["results"])}
               for name, model in models.items()}
    lines = ["# pagoda against its peers", ""]
    written = []
    titles = {"llama-server": "the better llama-server configuration", "vllm": "vLLM's CPU build"}
    for peer, title in titles.items():
        rows = {name: figure[peer] for name, figure in figures.items() if figure[peer]}
        if rows:
            path = out / f"against-{peer}.svg"
            path.write_text(plots.ratios(rows, f"How many times better pagoda does than {title}"))
            lines += [f"![Ratios against {title}]({path.name})", ""]
            written.append(path.name)
    for name, model in models.items():
        lines += model_sections(name, model, figures[name])
    (out / "report.json").write_text(json.dumps(figures, indent=1))
    (out / "report.md").write_text("\n".join(lines))
    print(f"\nWritten to {out}: report.md, report.json, {', '.join(written)}")
