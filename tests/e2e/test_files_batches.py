"""/v1/files and /v1/batches on a real model, by the `openai` package: the answers are those of the server,
others are not disturbed, and a killed server goes on."""

import concurrent.futures
import json
import time

import httpx
import openai
import pytest

import pagoda_server
from pagoda_server import MODEL_NAME

FINAL = ("completed", "failed", "cancelled")
SECONDS = 240
MINILM = pagoda_server.model_path("all-minilm-l6-v2")


def completion(i, max_tokens=24, **fields):
    body = {
        "model": MODEL_NAME,
        "prompt": f"Item {i} of the list is",
        "max_tokens": max_tokens,
        "temperature": 0,
        "ignore_eos": True,
    } | fields
    return {"custom_id": f"c{i}", "method": "POST", "url": "/v1/completions", "body": body}


def jsonl(lines):
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def create(client, lines, endpoint="/v1/completions", **fields):
    file = client.files.create(file=("in.jsonl", jsonl(lines)), purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h", **fields)


def poll(client, batch, over, seconds=SECONDS):
    deadline = time.monotonic() + seconds
    while not over(batch := client.batches.retrieve(batch.id)):
        assert time.monotonic() < deadline, batch
        time.sleep(0.02)
    return batch


def wait(client, batch):
    return poll(client, batch, lambda seen: seen.status in FINAL)


def wait_for_answers(client, batch, count):
    return poll(client, batch, lambda seen: seen.status in FINAL or seen.request_counts.completed >= count)


def answers(client, file_id):
    """custom_id -> the answer's body; every id is there once."""
    found = {}
    for text in client.files.content(file_id).text.splitlines():
        answer = json.loads(text)
        assert answer["custom_id"] not in found
        assert answer["error"] is None
        found[answer["custom_id"]] = answer["response"]["body"]
    return found


def texts(client, batch):
    return {name: body["choices"][0]["text"] for name, body in answers(client, batch.output_file_id).items()}


def stream(client, prompt):
    chunks = client.completions.create(
        model=MODEL_NAME,
        prompt=prompt,
        max_tokens=48,
        temperature=0,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    return "".join(chunk.choices[0].text for chunk in chunks)


@pytest.fixture
def batch_server(start_server, tmp_path):
    """start(...) is a server on the folder of the test."""
    return lambda *arguments, **more: start_server(
        "--batch-dir", str(tmp_path / "batches"), *arguments, **more
    )


def test_answers_are_those_of_the_server(batch_server):
    server = batch_server()
    client = server.client()
    chat = {
        "custom_id": "chat",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {
            "model": MODEL_NAME,
            "messages": [{"role": "user", "content": "Say hello."}],
            "max_tokens": 12,
            "temperature": 1,
            "seed": 3,
        },
    }
    batch = wait(client, create(client, [completion(i) for i in range(40)] + [completion(99, temperature=9)]))
    assert batch.status == "completed"
    assert (batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed) == (
        41,
        40,
        1,
    )
    found = texts(client, batch)
    assert set(found) == {f"c{i}" for i in range(40)}
    for i in (0, 17, 39):
        body = completion(i)["body"]
        extra = {"ignore_eos": body.pop("ignore_eos")}
        assert client.completions.create(**body, extra_body=extra).choices[0].text == found[f"c{i}"]
    assert answers(client, batch.error_file_id)["c99"]["error"]["param"] == "temperature"
    talk = wait(client, create(client, [chat], "/v1/chat/completions"))
    message = client.chat.completions.create(**chat["body"]).choices[0].message
    assert answers(client, talk.output_file_id)["chat"]["choices"][0]["message"]["content"] == message.content


def test_kill_and_restart_give_each_answer_once(batch_server):
    lines = [completion(i) for i in range(60)]
    server = batch_server("--max-num-seqs", "4")
    whole = server.client()
    expected = texts(whole, wait(whole, create(whole, lines)))
    batch = create(whole, lines)
    for count in (3, 20, 40):
        seen = wait_for_answers(server.client(), batch, count)
        assert seen.status == "in_progress"
        server.kill()
        server = batch_server("--max-num-seqs", "4")
    client = server.client()
    batch = wait(client, batch)
    assert batch.request_counts.completed == 60 and batch.error_file_id is None
    assert texts(client, batch) == expected
    assert server.stop() == 0


def test_cancel_and_stop_while_it_runs(batch_server):
    server = batch_server("--max-num-seqs", "4")
    client = server.client()
    batch = create(client, [completion(i, 64) for i in range(200)])
    later = create(client, [completion(0)])
    wait_for_answers(client, batch, 2)
    with pytest.raises(openai.BadRequestError, match="cancel it first"):
        client.files.delete(batch.input_file_id)
    assert client.batches.cancel(batch.id).status in ("cancelling", "cancelled")
    batch = wait(client, batch)
    assert batch.status == "cancelled"
    assert len(texts(client, batch)) == batch.request_counts.completed >= 2
    assert client.files.delete(batch.input_file_id).deleted
    assert wait(client, later).status == "completed"
    assert server.wait_unused()["used"] == 0
    running = create(client, [completion(i, 64) for i in range(60)])
    wait_for_answers(client, running, 1)
    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < 20, "a stop does not wait for the batch"
    client = batch_server().client()
    assert wait(client, running).request_counts.completed == 60


def test_streams_keep_their_text_and_come_first(batch_server):
    server = batch_server("--max-num-seqs", "8")
    client = server.client()
    prompts = [f"The story of number {i} begins" for i in range(6)]
    expected = [stream(client, prompt) for prompt in prompts]
    batch = create(client, [completion(i, 200) for i in range(300)])
    wait_for_answers(client, batch, 1)
    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
        for _ in range(2):
            assert list(pool.map(lambda prompt: stream(server.client(), prompt), prompts)) == expected
    assert wait_for_answers(client, batch, 20).status == "in_progress", "it goes on when they are gone"
    # Times of the background are not those of the server.
    served = 3 * len(prompts)
    assert "vllm:e2e_request_latency_seconds_count{" in server.metrics()
    counts = [
        line
        for line in server.metrics().splitlines()
        if line.startswith("vllm:e2e_request_latency_seconds_count")
    ]
    assert counts[0].endswith(f" {served}")
    client.batches.cancel(batch.id)


def test_a_stream_waits_for_no_batch(batch_server):
    """While streams run, a batch gets no tokens at all."""
    server = batch_server("--max-num-seqs", "8")
    client = server.client()
    batch = create(client, [completion(i, 4) for i in range(4000)])
    wait_for_answers(client, batch, 5)
    for _ in range(3):
        with client.completions.create(
            model=MODEL_NAME,
            prompt="Once",
            max_tokens=400,
            temperature=0,
            stream=True,
            extra_body={"ignore_eos": True},
        ) as chunks:
            counts = []
            for number, _ in enumerate(chunks):
                if number in (20, 100):
                    counts.append(client.batches.retrieve(batch.id).request_counts.completed)
        assert counts[1] == counts[0]
    assert wait_for_answers(client, batch, counts[1] + 10).status == "in_progress"
    client.batches.cancel(batch.id)


def test_a_batch_of_embeddings(batch_server):
    if not MINILM.exists():
        pytest.skip(f"no model at {MINILM}; run scripts/fetch_model minilm")
    server = batch_server(model=MINILM)
    client = server.client()
    inputs = [f"Text number {i} of them." for i in range(50)]
    lines = [
        {
            "custom_id": f"e{i}",
            "method": "POST",
            "url": "/v1/embeddings",
            "body": {"model": MODEL_NAME, "input": text, "encoding_format": "float"},
        }
        for i, text in enumerate(inputs)
    ]
    batch = wait(client, create(client, lines, "/v1/embeddings"))
    assert batch.status == "completed" and batch.request_counts.completed == 50
    found = answers(client, batch.output_file_id)
    direct = client.embeddings.create(model=MODEL_NAME, input=inputs, encoding_format="float")
    for i in range(50):
        assert found[f"e{i}"]["data"][0]["embedding"] == direct.data[i].embedding
    generation = wait(client, create(client, [completion(0)]))
    assert generation.request_counts.failed == 1, "a server of embeddings generates nothing"
    assert server.stop() == 0


def test_without_the_flag_the_routes_name_it(client):
    for call in (
        lambda: client.files.list(),
        lambda: client.batches.list(),
        lambda: client.files.create(file=("a", b"x"), purpose="batch"),
    ):
        with pytest.raises(openai.APIStatusError, match="--batch-dir") as error:
            call()
        assert error.value.status_code == 501


def test_folders_that_cannot_be_used(batch_server, start_server, tmp_path):
    batch_server()
    with pytest.raises(RuntimeError, match="--batch-dir: another server uses"):
        batch_server()
    plain = tmp_path / "plain"
    plain.write_text("x")
    with pytest.raises(RuntimeError, match=f"--batch-dir: {plain}"):
        start_server("--batch-dir", str(plain))


def test_large_files(batch_server):
    server = batch_server("--max-body-bytes", str(20 << 20))
    client = server.client()
    content = bytes(range(256)) * (72 << 10)  # 18 MiB
    file = client.files.create(file=("big", content), purpose="user_data")
    assert file.bytes == len(content)
    assert client.files.content(file.id).read() == content
    with pytest.raises(openai.APIStatusError) as error:
        client.files.create(file=("big", content + content), purpose="user_data")
    assert error.value.status_code == 413
    health = httpx.get(server.url + "/health", timeout=30)
    assert health.status_code == 200
