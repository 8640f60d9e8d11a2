"""`client.files` and `client.batches` of the `openai` package against the scripted model."""

import io
import json
import time

import openai
import pytest

import client as protocol

ALPHABET = "DEFGHIJ"  # what script:alphabet says


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    running = protocol.Server(batch_dir=tmp_path_factory.mktemp("batches"))
    yield openai.OpenAI(
        base_url=f"http://127.0.0.1:{running.port}/v1", api_key="none", max_retries=0, timeout=60
    )
    assert running.stop() == 0


def request(custom_id, url="/v1/completions", **body):
    body = {"model": "scripted", "prompt": "script:alphabet", "max_tokens": 20, **body}
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body}


def upload(client, lines, **fields):
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    return client.files.create(file=("requests.jsonl", content), purpose="batch", **fields)


def wait(client, batch):
    deadline = time.monotonic() + 60
    while (batch := client.batches.retrieve(batch.id)).status not in ("completed", "failed", "cancelled"):
        assert time.monotonic() < deadline, batch
        time.sleep(0.02)
    return batch


def test_files(client, tmp_path):
    path = tmp_path / "from_disk.jsonl"
    path.write_text(json.dumps(request("a")) + "\n")
    with open(path, "rb") as opened:
        first = client.files.create(file=opened, purpose="batch")
    assert (first.filename, first.bytes, first.object) == ("from_disk.jsonl", path.stat().st_size, "file")
    second = client.files.create(file=io.BytesIO(b"notes"), purpose="user_data")
    assert client.files.retrieve(first.id) == first
    assert client.files.content(first.id).read() == path.read_bytes()
    client.files.content(first.id).write_to_file(tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == path.read_bytes()
    assert client.files.wait_for_processing(second.id).status == "processed"
    pages = list(client.files.list(limit=1, order="asc"))  # goes through all pages
    assert [file.id for file in pages][-2:] == [first.id, second.id]
    assert [file.id for file in client.files.list(purpose="user_data")] == [second.id]
    gone = client.files.delete(second.id)
    assert (gone.id, gone.deleted, gone.object) == (second.id, True, "file")
    for call in (client.files.retrieve, client.files.content, client.files.delete):
        with pytest.raises(openai.NotFoundError):
            call(second.id)


def test_a_batch_with_fields_of_others(client):
    expiry = {"anchor": "created_at", "seconds": 3600}
    file = upload(client, [request("a"), request("b", temperature=5)], expires_after=expiry)
    batch = client.batches.create(
        input_file_id=file.id,
        endpoint="/v1/completions",
        completion_window="24h",
        metadata={"team": "x"},
        output_expires_after=expiry,
    )
    assert batch.status == "validating" and batch.metadata == {"team": "x"}
    batch = wait(client, batch)
    assert batch.status == "completed" and batch.errors is None
    counts = batch.request_counts
    assert (counts.total, counts.completed, counts.failed) == (2, 1, 1)
    answer = json.loads(client.files.content(batch.output_file_id).text)
    assert answer["custom_id"] == "a" and answer["response"]["status_code"] == 200
    assert answer["response"]["body"]["choices"][0]["text"] == ALPHABET
    answer = json.loads(client.files.content(batch.error_file_id).text)
    assert answer["custom_id"] == "b" and answer["response"]["status_code"] == 400
    assert batch.id in [one.id for one in client.batches.list(limit=1)]


def test_pages_of_batches(client):
    file = upload(client, [request("a")])
    made = [
        client.batches.create(input_file_id=file.id, endpoint="/v1/completions", completion_window="24h").id
        for _ in range(3)
    ]
    first = client.batches.list(limit=2)
    assert [batch.id for batch in first.data] == made[:0:-1] and first.has_more
    assert [batch.id for batch in first][:3] == made[::-1]
    for batch_id in made:
        assert wait(client, client.batches.retrieve(batch_id)).status == "completed"


def test_errors_have_the_classes_of_the_package(client):
    with pytest.raises(openai.BadRequestError) as error:
        client.batches.create(input_file_id="file-x", endpoint="/v1/completions", completion_window="24h")
    assert error.value.param == "input_file_id"
    with pytest.raises(openai.NotFoundError):
        client.batches.retrieve("batch_x")
    with pytest.raises(openai.NotFoundError):
        client.batches.cancel("batch_x")
    with pytest.raises(openai.BadRequestError) as error:
        client.files.create(file=("a", b"x"), purpose="harm")
    assert error.value.param == "purpose"


def test_wrong_lines(client):
    file = upload(client, [request("a"), request("a"), request("b", "/v1/embeddings")])
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/completions", completion_window="24h")
    batch = wait(client, batch)
    assert batch.status == "failed"
    assert [(e.line, e.code) for e in batch.errors.data] == [
        (2, "duplicate_custom_id"),
        (3, "mismatched_endpoint"),
    ]


def test_cancel(client):
    lines = [request(f"c{i}", prompt="script:slowx", max_tokens=60) for i in range(100)]
    batch = client.batches.create(
        input_file_id=upload(client, lines).id, endpoint="/v1/completions", completion_window="24h"
    )
    while client.batches.retrieve(batch.id).status == "validating":
        time.sleep(0.01)
    assert client.batches.cancel(batch.id).status == "cancelling"
    batch = wait(client, batch)
    assert batch.status == "cancelled" and batch.cancelled_at >= batch.cancelling_at
