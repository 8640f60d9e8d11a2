"""`pagoda quantize --format gguf`: files that say the same as their source, here and in llama.cpp."""

import os
import pathlib
import signal
import subprocess

import pytest
import xllamacpp

from pagoda_server import ROOT, binary, model_path, start_command

FINISH_SECONDS = 240
TINY = ROOT / "tests" / "data" / "golden" / "tiny" / "llama-tied-f32"  # a folder of floats
PROMPT = "The three primary colours are"


def start(*arguments):
    return start_command("quantize", *arguments)


def run(*arguments):
    process = start(*arguments)
    stdout, stderr = process.communicate(timeout=FINISH_SECONDS)
    return process.returncode, stdout, stderr


def write(source, out, kind):
    code, stdout, stderr = run(source, out, "--format", "gguf", "--type", kind)
    assert code == 0 and stdout == "", stderr
    return out


def refused(*arguments):
    """The line of a run that must fail; what it was about to do may stand before it."""
    code, stdout, stderr = run(*arguments)
    assert code == 1 and stdout == "", (code, stdout, stderr)
    lines = [line for line in stderr.splitlines() if " -> " not in line]
    assert len(lines) == 1, stderr
    return lines[0]


def generate(model, tokens=24):
    answer = subprocess.run(
        [
            str(binary()),
            "generate",
            str(model),
            "--prompt",
            PROMPT,
            "--max-tokens",
            str(tokens),
            "--temperature",
            "0",
        ],
        stdout=subprocess.PIPE,
        text=True,
        timeout=FINISH_SECONDS,
        check=True,
    )
    return answer.stdout


def test_a_wider_type_says_the_same_as_its_source(tmp_path):
    out = write(model_path(), tmp_path / "wide.gguf", "q8_0")
    assert out.read_bytes()[:4] == b"GGUF"
    assert generate(out) == generate(model_path())
    assert os.listdir(tmp_path) == ["wide.gguf"]


def test_a_folder_becomes_a_file_that_runs(tmp_path):
    out = write(TINY, tmp_path / "tiny.gguf", "f32")
    assert generate(out) == generate(TINY)


def test_a_file_in_four_bits_still_makes_sense(tmp_path):
    assert "red" in generate(write(model_path(), tmp_path / "four.gguf", "q4_0")).lower()


def test_what_is_no_whole_number_of_blocks_is_told(tmp_path):
    code, _, stderr = run(TINY, tmp_path / "k.gguf", "--format", "gguf", "--type", "q4_k")
    assert code == 0, stderr
    assert "tensors have rows that are no whole blocks of 256: they are Q8_0" in stderr


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--format", "gguf"], "--format gguf needs a --type: q4_0, q8_0, q4_k, f16 or f32"),
        (
            ["--format", "gguf", "--type", "q3_k"],
            "--type is 'q3_k'; q4_0, q8_0, q4_k, f16 and f32 can be written",
        ),
        (["--type", "q8_0"], "--type is for --format gguf"),
        (["--method", "rtn", "--type", "q8_0"], "--type is for --format gguf"),
    ]
    + [
        (["--format", "gguf", "--type", "q8_0", *flags], f"{flags[0]}{shown} is not for --format gguf")
        for flags, shown in (
            (["--method", "gptq"], " gptq"),
            (["--method", "awq"], " awq"),
            (["--method", "int8"], " int8"),
            (["--bits", "4"], ""),
            (["--group-size", "64"], ""),
            (["--calibration", "text"], ""),
            (["--sym"], ""),
        )
    ],
)
def test_flags_that_mean_nothing_are_refused(tmp_path, flags, message):
    out = tmp_path / "never.gguf"
    assert message in refused(model_path(), out, *flags)
    assert os.listdir(tmp_path) == []


def test_a_file_that_is_there_stays(tmp_path):
    out = tmp_path / "mine.gguf"
    out.write_text("mine")
    line = refused(model_path(), out, "--format", "gguf", "--type", "q8_0")
    assert "exists already; name a new file" in line
    assert out.read_text() == "mine"


def test_a_folder_that_is_not_there_is_one_line(tmp_path):
    line = refused(model_path(), tmp_path / "no" / "x.gguf", "--format", "gguf", "--type", "q8_0")
    assert "cannot create" in line and "No such file or directory" in line


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path):
    # A limit on the size of files stands in for a full disk.
    command = 'ulimit -f 20000; trap "" XFSZ; exec "$0" quantize "$1" "$2" --format gguf --type q8_0'
    process = subprocess.run(
        ["bash", "-c", command, str(binary()), str(model_path()), str(tmp_path / "x.gguf")],
        stderr=subprocess.PIPE,
        text=True,
        timeout=FINISH_SECONDS,
    )
    assert process.returncode == 1, process.stderr
    assert "cannot write" in process.stderr.splitlines()[-1]
    assert os.listdir(tmp_path) == []


def test_an_interrupted_run_leaves_nothing(tmp_path):
    process = start(model_path(), tmp_path / "x.gguf", "--format", "gguf", "--type", "q4_k", "--threads", "1")
    seen = process.stderr.readline()  # it has begun
    assert "GGUF q4_k" in seen
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=FINISH_SECONDS)
    assert process.returncode == 130, stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", ["q8_0", "q4_0", "q4_k"])
def test_llama_cpp_reads_the_file_alike(tmp_path, start_server, kind):
    """llama.cpp, by way of xllamacpp."""
    out = write(model_path(), tmp_path / "x.gguf", kind)
    server = start_server(model=pathlib.Path(out))
    mine = server.client().completions.create(
        model=server.client().models.list().data[0].id, prompt=PROMPT, max_tokens=1, temperature=0, logprobs=5
    )
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(out)
    parameters.n_ctx = 256
    parameters.n_gpu_layers = 0
    theirs = xllamacpp.Server(parameters).handle_completions(
        {"prompt": PROMPT, "n_predict": 1, "temperature": 0, "n_probs": 5}
    )
    assert theirs["usage"]["prompt_tokens"] == mine.usage.prompt_tokens
    top = {
        entry["token"]: entry["logprob"]
        for entry in theirs["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    }
    ours = mine.choices[0].logprobs.top_logprobs[0]
    assert max(top, key=top.get) == max(ours, key=ours.get)
    # llama.cpp rounds the inputs of every matrix to 8 bits: on files of its own it strays as far.
    common = top.keys() & ours.keys()
    assert len(common) >= 4
    for token in common:
        assert abs(top[token] - ours[token]) < 0.5, (token, top, ours)
