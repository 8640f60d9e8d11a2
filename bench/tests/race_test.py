"""What the race concludes from stored results, and when it measures again."""
import importlib.machinery
import importlib.util
import json
import pathlib
import sys
import tempfile
import unittest
import xml.dom.minidom

BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH / "race"))

import plots  # noqa: E402: the path comes first
import report  # noqa: E402


def load_script(path):
    """A Python file without the ending .py as a module; leaves no compiled copy behind."""
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader(path.name, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(path.name, loader))
    sys.modules[path.name] = module
    loader.exec_module(module)
    return module


def one_round(**figures):
    return dict.fromkeys(("output_tok_s", "total_tok_s", "ttft_p50_ms", "ttft_p99_ms", "itl_p50_ms",
                          "itl_p99_ms"), 1.0) | figures


def result(rounds, memory=None):
    return {"date": "2026-01-01", "load_average": 2.0, "seed": 1, "rounds": rounds,
            "peak_memory_mb": memory or dict.fromkeys(rounds, 100.0), "ready_s": dict.fromkeys(rounds, 1.0)}


def llama_result(metric, ours, theirs, memory=None):
    rounds = {"pagoda": [one_round(**{metric: value}) for value in ours],
              "llama-server": [one_round(**{metric: value}) for value in theirs]}
    return result(rounds, memory)


class RowsTest(unittest.TestCase):
    def test_the_better_configuration_is_the_one_with_the_smaller_ratio(self):
        results = {("llama-default", "decode-1"): llama_result("output_tok_s", [90, 100, 300], [50, 50, 50]),
                   ("llama-no-repack", "decode-1"): llama_result("output_tok_s", [120] * 3, [80, 80, 1])}
        row = report.llama_rows("smollm2-135m-instruct-q4_1", results)[0]
        self.assertEqual(row["best"], "no-repack")
        self.assertAlmostEqual(row["ratio"], 1.5)  # medians 120 and 80; the default would give 2
        self.assertEqual(row["pagoda"], 120)
        self.assertEqual(row["peer"], {"default": 50, "no-repack": 80})
        self.assertEqual(report.reached(row), "no")  # the aim is 3

    def test_less_is_better_for_latency_and_memory(self):
        memory = {"pagoda": 70.0, "llama-server": 100.0}
        results = {("llama-default", "mixed"): llama_result("itl_p99_ms", [20], [400], memory)}
        rows = {row["workload"]: row for row in report.llama_rows("smollm2-135m-instruct-q4_1", results)}
        self.assertAlmostEqual(rows["mixed"]["ratio"], 20)
        self.assertEqual(report.reached(rows["mixed"]), "yes")
        self.assertAlmostEqual(rows[report.MEMORY]["ratio"], 1 / 0.7)
        self.assertEqual(report.reached(rows[report.MEMORY]), "yes")

    def test_memory_is_the_peak_over_the_workloads(self):
        results = {("llama-default", name): llama_result("output_tok_s", [1], [1],
                                                         {"pagoda": ours, "llama-server": 10.0})
                   for name, ours in (("decode-1", 5.0), ("batch-4", 9.0))}
        rows = {row["workload"]: row for row in report.llama_rows("any", results)}
        self.assertEqual(rows[report.MEMORY]["pagoda"], 9.0)

    def test_vllm_is_compared_with_pagoda_alone(self):
        results = {("alone-pagoda", "prefill-1500"): result({"pagoda": [one_round(ttft_p50_ms=100)]}),
                   ("alone-vllm-iomp", "prefill-1500"): result({"vllm": [one_round(ttft_p50_ms=170)]}),
                   ("alone-vllm-iomp", "decode-1"): result({"vllm": [one_round()]})}
        rows = {row["workload"]: row for row in report.vllm_rows("smollm2-135m-instruct-q4_1", results)}
        self.assertAlmostEqual(rows["prefill-1500"]["ratio"], 1.7)
        self.assertNotIn("decode-1", rows)  # pagoda has not run it

    def test_a_busy_neighbour_may_cost_its_share_and_a_little(self):
        pairs = [{"quiet_tok_s": 100, "busy_tok_s": busy, "neighbour_share": 0.3} for busy in (60, 70, 90)]
        row, = report.busy_rows({("busy-pagoda", "batch-16"): {"busy": pairs}})
        self.assertAlmostEqual(row["fall"], 0.3)
        self.assertAlmostEqual(row["allowed"], 0.45)


class FilesTest(unittest.TestCase):
    def test_report_and_plots_are_written_from_partial_results(self):
        with tempfile.TemporaryDirectory() as scratch:
            out = pathlib.Path(scratch)
            folder = out / "results" / "a<b"
            folder.mkdir(parents=True)
            (folder / "about.json").write_text(json.dumps(
                {"model": "m.gguf", "cpu": "c", "threads": 2, "pagoda": "0"}))
            (folder / "llama-default--decode-1.json").write_text(
                json.dumps(llama_result("output_tok_s", [50], [100])))
            report.write(out)
            self.assertIn("| decode-1 | output tokens/s | 50.0 | 100 | 0.50x | - |  |",
                          (out / "report.md").read_text())
            xml.dom.minidom.parse(str(out / "against-llama-server.svg"))

    def test_a_plot_without_aims_is_valid(self):
        rows = {"m": [{"workload": "w", "ratio": 0.04, "aim": None},
                      {"workload": "v", "ratio": 900, "aim": 3}]}
        xml.dom.minidom.parseString(plots.ratios(rows, "a & b"))


class StoreTest(unittest.TestCase):
    def test_a_result_counts_only_for_what_it_was_measured_with(self):
        run = load_script(BENCH / "race" / "run")
        with tempfile.TemporaryDirectory() as scratch:
            store = run.Store(pathlib.Path(scratch) / "results")
            self.assertFalse(store.has("e", "w", {"seed": 1}))
            store.put("e", "w", {"key": {"seed": 1}})
            self.assertTrue(store.has("e", "w", {"seed": 1}))
            self.assertFalse(store.has("e", "w", {"seed": 2}))
            store.path("e", "w").write_text("{")  # cut off
            self.assertFalse(store.has("e", "w", {"seed": 1}))


class CompareTest(unittest.TestCase):
    def test_slower_ops_are_counted(self):
        compare = load_script(BENCH / "micro" / "compare")

        def case(name, us):
            return {"group": "g", "name": name, "isa": "avx2", "threads": 1, "us": us, "bound": "int8",
                    "percent_of_bound": 50.0}
        with tempfile.TemporaryDirectory() as scratch:
            paths = []
            for name, times in (("old", {"a": 10, "b": 10, "gone": 1}), ("new", {"a": 10.9, "b": 12})):
                paths.append(pathlib.Path(scratch) / name)
                paths[-1].write_text(json.dumps({"cases": [case(*pair) for pair in times.items()]}))
            self.assertEqual(self.exit_code(compare, *paths), 0)
            self.assertEqual(self.exit_code(compare, *paths, "--fail"), 1)
            self.assertEqual(self.exit_code(compare, *paths, "--fail", "--threshold", "0.2"), 0)

    @staticmethod
    def exit_code(compare, *arguments):
        sys.argv = ["compare", *map(str, arguments)]
        return compare.main()


if __name__ == "__main__":
    unittest.main()
