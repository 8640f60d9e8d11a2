"""`pagoda eval`: the figures of models in one table, each model in a process of its own."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import xml.etree.ElementTree

import pytest

from pagoda_server import MODEL_FILE, ROOT, binary, model_path, start_command

FINISH_SECONDS = 240
SHARED = pathlib.Path(os.environ.get("PAGODA_SHARED") or ROOT.parent / "shared")
GOLDEN = SHARED / "golden" / "real" / "smollm2"
TINY = ROOT / "tests" / "data" / "golden" / "tiny" / "llama-tied-f32"  # a folder of floats
OTHER_VOCABULARY = ROOT / "tests" / "data" / "golden" / "tiny" / "gemma3"
WINDOW = ["--window", "64", "--max-tokens", "256"]


def start(*arguments, **options):
    return start_command("eval", *arguments, **options)


def run(*arguments):
    process = start(*arguments)
    stdout, stderr = process.communicate(timeout=FINISH_SECONDS)
    return process.returncode, stdout, stderr


def table(*arguments):
    """The rows of a run that must succeed, by name."""
    code, stdout, stderr = run(*arguments, "--format", "json")
    assert code == 0, stderr
    found = json.loads(stdout)
    rows = {row["name"]: row for row in found["models"]}
    assert len(rows) == len(found["models"])
    return rows


def refused(*arguments):
    """The line of a run that must fail."""
    code, stdout, stderr = run(*arguments)
    assert code == 1 and stdout == "", (code, stdout, stderr)
    assert stderr.count("\n") == 1, stderr
    return stderr


def write_lines(path, lines):
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def question(text, choices, answer):
    return {"question": text, "choices": choices, "answer": answer}


def test_perplexity_and_kl_of_smollm2(prerequisites):
    if not GOLDEN.exists():
        pytest.skip(f"the reference data ({GOLDEN}) is not here")
    expected = json.loads((GOLDEN / "ppl.json").read_text())
    model = model_path()
    rows = table(f"{model}::activation-precision=int16,name=int16",
                 f"{model}::activation-precision=int8,name=int8", "--reference",
                 f"{model}::name=exact", "--text", GOLDEN / "ppl.txt", "--window",
                 expected["window"], "--max-tokens", expected["n_tokens"])  # fmt: skip
    exact, int16, int8 = rows["exact"], rows["int16"], rows["int8"]
    assert exact["format"] == "float32" and int8["format"] == "Q4_1"
    assert exact["text_tokens"] == expected["n_tokens"]
    reference = expected["weights_f32"]["perplexity"]
    assert abs(exact["perplexity"] / reference - 1) < 0.001
    assert abs(int16["perplexity"] / reference - 1) < 0.003
    assert 0 < int16["kl_mean"] < 0.0005 < int8["kl_mean"] < 0.006
    assert int16["kl_p99"] < int8["kl_p99"] and int8["kl_mean"] < int8["kl_p99"]
    assert 95 < int8["top1_percent"] < int16["top1_percent"] <= 100
    assert int8["weights_mb"] < 0.3 * exact["weights_mb"]
    for row in rows.values():
        assert row["memory_mb"] > row["weights_mb"]
        assert row["size_mb"] == exact["size_mb"] == model.stat().st_size / 1e6


def test_a_model_is_no_distance_from_itself_and_four_bits_are_further_than_eight(prerequisites):
    rows = table(f"{TINY}::dtype=float32,name=same", TINY, f"{TINY}::quantization=int8",
                 f"{TINY}::quantization=int4", "--reference", f"{TINY}::name=exact", *WINDOW)  # fmt: skip
    name = TINY.name
    assert list(rows) == ["exact", "same", name, f"{name} quantization=int8", f"{name} quantization=int4"]
    exact, same, native, int8, int4 = rows.values()
    assert same["kl_mean"] == same["kl_p99"] == 0 and same["top1_percent"] == 100
    assert same["perplexity"] == exact["perplexity"]
    assert 0 < int8["kl_mean"] < int4["kl_mean"]
    assert int8["format"] == "int8" and int4["format"] == "int4"
    assert int4["weights_mb"] < int8["weights_mb"] < exact["weights_mb"]
    assert {"decode_tokens_per_s", "accuracy_percent"}.isdisjoint(native)


def test_flags_for_all_models_do_not_change_the_reference(prerequisites):
    rows = table(TINY, "--reference", f"{TINY}::name=exact", "--quantization", "int4", "--threads", "1",
                 *WINDOW)  # fmt: skip
    assert rows["exact"]["format"] == "float32" and rows[TINY.name]["format"] == "int4"


def test_formats_files_and_speed(prerequisites, tmp_path):
    out, plot = tmp_path / "table.md", tmp_path / "plot.svg"
    code, stdout, stderr = run(TINY, f"{TINY}::quantization=int8,name=a|b", "--speed", "--format", "markdown",
                               "--out", out, "--plot", plot, *WINDOW)  # fmt: skip
    assert code == 0 and stdout == "", stderr
    lines = out.read_text().splitlines()
    titles = [title.strip() for title in lines[0].strip("| ").split("|")]
    assert titles == ["model", "format", "size MB", "weights MB", "memory MB", "decode tok/s",
                      "prefill tok/s", "perplexity"]  # fmt: skip
    assert len(lines) == 4 and "| a\\|b " in lines[3]
    svg = xml.etree.ElementTree.parse(plot).getroot()
    assert len(svg.findall("{http://www.w3.org/2000/svg}circle")) == 2
    code, stdout, _ = run(TINY)  # its context is shorter than the window is by default
    assert code == 0 and len(stdout.splitlines()) == 2 and "KL" not in stdout


class Worker:
    """The process of one model, without its parent: the lines of src/cli/eval_worker.h."""

    def __init__(self, *arguments):
        ours, theirs = socket.socketpair()
        memory = os.memfd_create("logits")

        def place_descriptors():
            kept = os.dup(memory), os.dup(theirs.fileno())
            os.dup2(kept[1], 3)
            os.dup2(kept[0], 4)

        self.process = subprocess.Popen([str(binary()), "eval-worker", *map(str, arguments)], close_fds=False,
                                        preexec_fn=place_descriptors)  # fmt: skip
        theirs.close()
        os.close(memory)
        self.stream = ours.makefile("rw")
        self.hello = json.loads(self.stream.readline())

    def ask(self, **request):
        self.stream.write(json.dumps(request) + "\n")
        self.stream.flush()
        return json.loads(self.stream.readline())


def test_loglikelihoods_of_choices_are_the_references(prerequisites):
    reference = json.loads((pathlib.Path(__file__).parent / "loglikelihood_reference.json").read_text())
    text = next(t for t in reference["texts"] if t["text"].startswith("The history of"))
    # The first score is that of the second token; every word here is a token.
    likelihood = {"before": text["scores"][7], "James": text["scores"][8], "Watt": text["scores"][9]}
    start = "The history of the steam engine begins long"
    worker = Worker(model_path(), "--dtype", "float32", "--max-model-len", "512", "--log-level", "warning")
    assert worker.hello["vocab"] == 49152

    def logprobs(context, *continuations):
        return worker.ask(op="choices", context=context, continuations=continuations)["logprobs"]

    long, short = logprobs(start, " before James Watt", " before")
    assert abs(long - sum(likelihood.values())) < 0.02 and abs(short - likelihood["before"]) < 0.02
    other = logprobs("Something else", " entirely", " before")
    again = logprobs(start + " before", " James Watt", " entirely", " James")
    assert abs(again[0] - likelihood["James"] - likelihood["Watt"]) < 0.02
    assert abs(again[2] - likelihood["James"]) < 0.02
    assert logprobs("Something else", " before", " entirely") == other[::-1], "the same, whatever came before"
    too_long = worker.ask(op="choices", context="a b" * 2000, continuations=["c"])
    assert "--max-model-len is 512" in too_long["unusable"]
    worker.stream.close()
    assert worker.process.wait(timeout=FINISH_SECONDS) == 0


def test_multiple_choice(prerequisites, tmp_path):
    questions = write_lines(tmp_path / "questions.jsonl", [
        question("Count on: 1, 2, 3, 4, 5, 6,", ["banana", "7, 8, 9", "Thursday"], "B"),
        "nonsense",
        question("Say the alphabet: A, B, C, D, E,", ["F, G, H", "umbrella", "seventeen"], 0),
        question("What is too long?" + " very" * 5000, ["a", "b"], 0),
        question("No such answer", ["a", "b"], 7),
    ])  # fmt: skip
    code, stdout, stderr = run(model_path(), "--text", "none", "--multiple-choice", questions,
                               "--choice-scoring", "texts", "--format", "json")  # fmt: skip
    assert code == 0, stderr
    row = json.loads(stdout)["models"][0]
    assert row["questions"] == 2
    assert row["accuracy_percent"] == row["accuracy_normalised_percent"] == 100
    for line in (
        "line 2 is skipped: not JSON",
        "line 5 is skipped: 'answer' is 7",
        "line 4 of the questions",
    ):
        assert line in stderr
    assert "perplexity" not in row
    rows = table(model_path(), "--text", "none", "--multiple-choice", questions, "--limit", "2")
    row = rows[pathlib.Path(MODEL_FILE).stem]
    assert row["questions"] == 2 and "accuracy_normalised_percent" not in row


def test_code_is_run_when_it_is_allowed(prerequisites, tmp_path):
    prompt = "def first(items):\n    return items[0]\n\n\ndef second(items):\n    return items["
    problems = write_lines(tmp_path / "problems.jsonl", [
        {"task_id": "T/0", "prompt": prompt, "entry_point": "second",
         "test": "def check(f):\n    assert f([5, 6, 7]) == 6\n    assert f('ab') == 'b'\n"},
        {"task_id": "T/1", "prompt": prompt, "entry_point": "second",
         "test": "def check(f):\n    assert f([5, 6, 7]) == 5\n"},
        {"task_id": "T/2"},
    ])  # fmt: skip
    line = refused(model_path(), "--humaneval", problems)
    assert "--allow-code-execution" in line
    code, stdout, stderr = run(model_path(), "--text", "none", "--humaneval", problems,
                               "--allow-code-execution", "--max-new-tokens", "48")  # fmt: skip
    assert code == 0, stderr
    assert "line 3 is skipped: no field 'prompt'" in stderr
    assert "1 of 2" in stdout and "50.0" in stdout


def test_bad_input_is_one_line(prerequisites, tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "latin").write_bytes(b"caf\xe9 au lait, caf\xe9 noir")
    (tmp_path / "short").write_text("a")
    for name, what in [("missing", "No such file"), ("empty", "empty"), ("binary", "not a text"),
                       ("latin", "UTF-8"), ("short", "too short")]:  # fmt: skip
        line = refused(TINY, "--text", tmp_path / name)
        assert str(tmp_path / name) in line and what in line
    assert "vocabulary" in refused(TINY, "--reference", OTHER_VOCABULARY)
    assert "no/such/model" in refused("no/such/model")
    assert "int3" in refused(f"{TINY}::quantization=int3")
    assert "--port" in refused(f"{TINY}::port=80")
    assert "flag=value" in refused(f"{TINY}::int4")
    assert "--window is 100000" in refused(TINY, "--window", "100000")
    assert "--reference" in refused(TINY, "--reference", TINY, "--text", "none")
    assert "is empty" in refused(TINY, "--multiple-choice", tmp_path / "empty")
    assert "No such file" in refused(TINY, "--out", tmp_path / "no" / "table")
    assert "is a folder" in refused(TINY, "--plot", tmp_path)
    assert run(TINY, "--format", "html")[0] == run(TINY, "--window", "1")[0] == run()[0] == 2


def children(pid):
    return [int(i) for i in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_one_line(prerequisites, number):
    process = start(model_path(), "--reference", model_path())
    deadline = time.monotonic() + FINISH_SECONDS
    while len(children(process.pid)) < 2:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    workers = children(process.pid)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=FINISH_SECONDS)
    assert process.returncode == 130 and stderr == "Stopped: the table has the models that were done.\n"
    assert len(stdout.splitlines()) == 2 and "(reference)" in stdout
    assert not any(pathlib.Path(f"/proc/{worker}").exists() for worker in workers)


def test_a_model_that_dies_leaves_the_others(prerequisites):
    process = start(model_path(), TINY, "--text", ROOT / "ARCHITECTURE.md", "--max-tokens", "100000")
    deadline = time.monotonic() + FINISH_SECONDS
    while not children(process.pid):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(children(process.pid)[0], signal.SIGKILL)
    stdout, stderr = process.communicate(timeout=FINISH_SECONDS)
    assert process.returncode == 1
    assert "the model's process was killed; there may not be enough memory for it" in stderr
    assert len(stdout.splitlines()) == 2 and TINY.name in stdout
