"""`pagoda batch`: requests from a file, answers into a file, however often the run was ended on the way."""
import json
import signal
import subprocess
import time

import pytest

from pagoda_server import MODEL_NAME, binary, model_path

FINISH_SECONDS = 240


def request(custom_id, url="/v1/completions", **body):
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": {"model": MODEL_NAME} | body}


def completion(i, max_tokens=24):
    return request(f"c{i}", prompt=f"Item {i} of the list is", max_tokens=max_tokens, temperature=0,
                   ignore_eos=True)


def chat(i):
    return request(f"chat{i}", "/v1/chat/completions", messages=[{"role": "user", "content": f"Say {i}."}],
                   max_tokens=12, temperature=1, seed=i)


def write_lines(path, lines):
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))


def start(source, target, *arguments, **options):
    command = [str(binary()), "batch", str(model_path()), "-i", str(source), "-o", str(target),
               "--served-model-name", MODEL_NAME, *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)


def finish(process):
    stdout, stderr = process.communicate(timeout=FINISH_SECONDS)
    return process.returncode, stdout, stderr


def answers(path):
    """custom_id -> what was generated; every line must be whole and every id its only one."""
    found = {}
    for line in path.read_text().splitlines():
        answer = json.loads(line)
        assert answer["custom_id"] not in found
        assert answer["error"] is None and answer["response"]["status_code"] == 200, line
        choice = answer["response"]["body"]["choices"][0]
        found[answer["custom_id"]] = choice.get("text", choice.get("message"))
    return found


def wait_for_lines(path, count, process):
    deadline = time.monotonic() + FINISH_SECONDS
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(scope="module")
def whole_run(prerequisites, tmp_path_factory):
    folder = tmp_path_factory.mktemp("batch")
    source, target = folder / "in.jsonl", folder / "out.jsonl"
    write_lines(source, [completion(i) for i in range(60)] + [chat(i) for i in range(20)])
    code, _, stderr = finish(start(source, target))
    assert code == 0, stderr
    assert "80/80" in stderr
    return source, answers(target)


def test_answers_are_those_of_the_server(whole_run, server, client):
    source, found = whole_run
    assert len(found) == 80
    for line in [completion(3), completion(59)]:
        body = {key: value for key, value in line["body"].items() if key != "ignore_eos"}
        answer = client.completions.create(**body, extra_body={"ignore_eos": True})
        assert answer.choices[0].text == found[line["custom_id"]]
    message = client.chat.completions.create(**chat(7)["body"]).choices[0].message
    assert message.content == found["chat7"]["content"]


def test_killed_runs_go_on_to_the_same_answers(whole_run, tmp_path):
    source, expected = whole_run
    target = tmp_path / "out.jsonl"
    for count in (5, 30):
        process = start(source, target, "--max-num-seqs", "4")
        wait_for_lines(target, count, process)
        process.kill()
        process.communicate()
        assert count <= target.read_bytes().count(b"\n") < 80
    text = target.read_bytes()
    target.write_bytes(text[:-20])  # a line that was written in part
    code, _, stderr = finish(start(source, target))
    assert code == 0, stderr
    assert answers(target) == expected
    done = target.read_bytes()
    assert finish(start(source, target))[0] == 0
    assert target.read_bytes() == done


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(whole_run, tmp_path, number):
    source, expected = whole_run
    target = tmp_path / "out.jsonl"
    process = start(source, target, "--max-num-seqs", "4")
    wait_for_lines(target, 5, process)
    process.send_signal(number)
    code, _, stderr = finish(process)
    assert code == 130 and "to go on" in stderr
    assert set(answers(target)) < set(expected)
    assert finish(start(source, target))[0] == 0
    assert answers(target) == expected


def test_bad_lines_are_named_and_skipped(prerequisites, tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    write_lines(source, [completion(0, 4), "not json", completion(0, 4),
                         request("url", "/v1/nothing", prompt="x"),
                         request("type", prompt="x", max_tokens="many"),
                         request("stream", prompt="x", stream=True),
                         "", {"custom_id": "method", "url": "/v1/completions", "body": {}}, completion(1, 4),
                         request("model", prompt="x") | {"body": {"model": "other", "prompt": "x"}}])
    code, _, stderr = finish(start(source, target))
    assert code == 1
    for number in (2, 3, 4, 5, 6, 8, 10):
        assert f"line {number}: " in stderr, stderr
    found = [json.loads(line) for line in target.read_text().splitlines()]
    assert sorted(a["error"]["line"] for a in found if a["error"]) == [2, 3, 4, 6, 8]
    status = {a["custom_id"]: a["response"]["status_code"] for a in found if a["response"]}
    assert status == {"c0": 200, "c1": 200, "type": 400, "model": 404}
    refused = next(a for a in found if a["custom_id"] == "type")
    assert refused["response"]["body"]["error"]["param"] == "max_tokens"
    assert finish(start(source, target))[0] == 1, "failures of an earlier run still count"
    assert len(target.read_text().splitlines()) == len(found)


def test_pipes(prerequisites):
    process = start("-", "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.write(json.dumps(completion(0, 4)) + "\n")
    process.stdin.flush()
    first = json.loads(process.stdout.readline())  # before the input has ended
    assert first["custom_id"] == "c0"
    stdout, stderr = process.communicate(json.dumps(completion(1, 4)), timeout=FINISH_SECONDS)
    assert process.returncode == 0, stderr
    assert json.loads(stdout)["custom_id"] == "c1"


def test_other_files_are_left_alone(prerequisites, tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "notes"
    write_lines(source, [completion(0, 4)])
    target.write_text("my notes")
    code, _, stderr = finish(start(source, target))
    assert code == 1 and "no answer of a batch" in stderr
    assert target.read_text() == "my notes"
    assert finish(start(source, source))[0] == 1
    code, _, stderr = finish(start(source, "/dev/full"))
    assert code == 1 and "No space left" in stderr
    assert finish(start(tmp_path / "missing", target))[0] == 1
