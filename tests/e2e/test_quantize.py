"""`pagoda quantize`: folders from a GGUF file, runs that are ended, and what is refused."""

import json
import signal
import subprocess
import time

import pytest

from pagoda_server import ROOT, binary, model_path, start_command

FINISH_SECONDS = 240
FAST = ["--samples", "2", "--sample-tokens", "64"]
TINY = ROOT / "tests" / "data" / "golden" / "tiny"


def start(*arguments):
    return start_command("quantize", *arguments)


def run(*arguments):
    process = start(*arguments)
    _, stderr = process.communicate(timeout=FINISH_SECONDS)
    return process.returncode, stderr


def greedy(model):
    command = [binary(), "generate", model, "-p", "def fib(n):", "-n", "16", "--temperature", "0"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=FINISH_SECONDS)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def assert_complete(out):
    assert not list(out.glob("quantize-*")) and not out.with_name(out.name + ".partial").exists()


@pytest.mark.parametrize("method, kind", [("gptq", "gptq"), ("awq", "awq"), ("rtn", "gptq")])
@pytest.mark.parametrize("name", ["gemma3", "llama-tied-f32", "mistral-swa", "qwen3"])
def test_four_bits_of_a_folder(tmp_path, name, method, kind):
    out = tmp_path / "out"
    groups = "-1" if name == "qwen3" else "32"  # its 240 columns have no such groups
    code, stderr = run(TINY / name, out, "--method", method, "--group-size", groups, *FAST)
    assert code == 0, stderr
    config = json.loads((out / "config.json").read_text())
    assert config["quantization_config"]["quant_method"] == kind
    assert_complete(out)
    assert greedy(out)


@pytest.mark.parametrize("flag, sym, layout", [("--sym", True, "gptq"), ("--asym", False, "gptq_v2")])
def test_zero_points_have_a_format_of_their_own(tmp_path, flag, sym, layout):
    out = tmp_path / "out"
    code, stderr = run(TINY / "llama-tied-f32", out, "--group-size", "32", flag, *FAST)
    assert code == 0, stderr
    config = json.loads((out / "config.json").read_text())["quantization_config"]
    assert config["sym"] is sym and config["checkpoint_format"] == layout
    assert greedy(out)


def test_awq_rounds_by_gptq_unless_told(tmp_path):
    codes = []
    for rounding in ([], ["--rounding", "gptq"], ["--rounding", "nearest"]):
        out = tmp_path / ("out" + "".join(rounding))
        arguments = ["--method", "awq", "--group-size", "32", *rounding]
        code, stderr = run(TINY / "llama-tied-f32", out, *arguments, *FAST)
        assert code == 0, stderr
        codes.append((out / "model-00001-of-00003.safetensors").read_bytes())
        assert greedy(out)
    assert codes[0] == codes[1] != codes[2]


def test_eight_bits_answer_as_the_file_does(prerequisites, tmp_path):
    for method, bits in (("int8", "8"), ("rtn", "8")):
        out = tmp_path / method
        code, stderr = run(model_path(), out, "--method", method, "--bits", bits, "--group-size", "64")
        assert code == 0, stderr
        assert greedy(out) == greedy(model_path())


def test_an_interrupted_run_goes_on(prerequisites, tmp_path):
    out, partial = tmp_path / "out", tmp_path / "out.partial"
    arguments = [model_path(), out, "--group-size", "64", "--samples", "4", "--sample-tokens", "128"]
    process = start(*arguments)
    end = time.monotonic() + FINISH_SECONDS
    while not list(partial.glob("*-inputs-*.bin")) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=FINISH_SECONDS)
    assert process.returncode == 130 and "the same command goes on" in stderr
    assert partial.exists() and not out.exists()
    code, stderr = run(*arguments, "--desc-act")
    assert code == 1 and "with other options; remove it" in stderr
    code, stderr = run(*arguments)
    assert code == 0, stderr
    assert_complete(out)
    assert json.loads((out / "config.json").read_text())["architectures"] == ["LlamaForCausalLM"]
    assert "return" in greedy(out)
    code, stderr = run(*arguments)
    assert code == 1 and "exists already" in stderr


def test_what_is_refused_is_one_line(prerequisites, tmp_path):
    empty, binary_file = tmp_path / "empty.txt", tmp_path / "binary.txt"
    empty.write_text("")
    binary_file.write_bytes(bytes(range(256)))
    out = tmp_path / "out"
    for arguments, expected in (
        (["--bits", "3"], "--bits is 3; 4 and 8 can be written"),
        (["--method", "awq", "--sym"], "--sym: the method awq has zero points"),
        (["--method", "int8", "--asym"], "--asym: the method int8 has no zero points"),
        (["--rounding", "nearest"], "--rounding is for the method awq"),
        (["--group-size", "128"], "--group-size 128 does not divide the 576 inputs"),
        (["--group-size", "64", "--calibration", empty], "the file is empty"),
        (["--group-size", "64", "--calibration", binary_file], "not a text"),
        (["--group-size", "64", "--calibration", tmp_path / "none"], "No such file"),
    ):
        code, stderr = run(model_path(), out, *arguments)
        assert code == 1 and expected in stderr.splitlines()[-1], stderr
        assert not out.exists() and not (tmp_path / "out.partial").exists()
