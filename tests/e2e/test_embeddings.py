"""/v1/embeddings, /rerank and /score of an encoder (all-MiniLM-L6-v2) and of a decoder run as one."""
import base64
import concurrent.futures
import json
import math
import pathlib
import re
import socket
import struct
import time

import httpx
import openai
import pytest

import pagoda_server

MINILM = pagoda_server.model_path("all-minilm-l6-v2")
REFERENCE = json.loads((pathlib.Path(__file__).parent / "minilm_reference.json").read_text(encoding="utf-8"))
WIDTH = 384
MAX_TOKENS = 256
LONG = "The capital of France is Paris. " * 30  # 212 tokens


def start(tmp_path_factory, name, *arguments, **more):
    return pagoda_server.Server(tmp_path_factory.mktemp(name) / "log", *arguments, **more).wait_ready()


@pytest.fixture(scope="module")
def minilm(tmp_path_factory):
    if not MINILM.exists():
        pytest.skip(f"no model at {MINILM}; run scripts/fetch_model minilm")
    running = start(tmp_path_factory, "minilm", model=MINILM)
    yield running
    assert running.stop() == 0, running.log()


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    running = start(tmp_path_factory, "decoder", "--task", "embed")
    yield running
    assert running.stop() == 0, running.log()


def post(server, path, body):
    return httpx.post(server.url + path, json=body, timeout=120)


def embed(server, text, **fields):
    answer = post(server, "/v1/embeddings", {"input": text, **fields})
    assert answer.status_code == 200, answer.text
    return [entry["embedding"] for entry in answer.json()["data"]]


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def length(vector):
    return math.sqrt(sum(x * x for x in vector))


def test_agrees_with_the_reference(minilm):
    vectors = embed(minilm, [entry["text"] for entry in REFERENCE])
    for entry, vector in zip(REFERENCE, vectors):
        assert cosine(vector, entry["vector"]) >= 0.9999, entry["text"]
        assert max(abs(x - y) for x, y in zip(vector, entry["vector"])) < 2e-3, entry["text"]
        assert abs(length(vector) - 1) < 1e-5


def test_float32_agrees_with_the_reference(tmp_path_factory, minilm):
    exact = start(tmp_path_factory, "float32", "--dtype", "float32", model=MINILM)
    try:
        for entry, vector in zip(REFERENCE, embed(exact, [entry["text"] for entry in REFERENCE])):
            assert max(abs(x - y) for x, y in zip(vector, entry["vector"])) < 2e-6, entry["text"]
    finally:
        assert exact.stop() == 0, exact.log()


def test_vocab_txt_makes_the_same_tokenizer(tmp_path_factory, tmp_path, minilm):
    folder = tmp_path / "model"
    folder.mkdir()
    for path in MINILM.iterdir():
        if path.name != "tokenizer.json":
            (folder / path.name).symlink_to(path)
    other = start(tmp_path_factory, "vocab", model=folder)
    try:
        texts = [entry["text"] for entry in REFERENCE] + ["Ünïcödé [MASK] \U0001f600 x" + "y" * 200]
        assert embed(other, texts) == embed(minilm, texts)
    finally:
        assert other.stop() == 0, other.log()


def test_tokens_are_those_of_the_reference(minilm):
    for entry in REFERENCE:
        answer = post(minilm, "/tokenize", {"prompt": entry["text"], "parse_special": False})
        assert answer.json()["tokens"] == entry["ids"]
        assert embed(minilm, entry["ids"]) == embed(minilm, entry["text"])


def test_openai_package_asks_for_base64(minilm):
    client = openai.OpenAI(base_url=minilm.url + "/v1", api_key="x")
    answer = client.embeddings.create(model=pagoda_server.MODEL_NAME, input=["Hello world", "a"])
    assert [entry.index for entry in answer.data] == [0, 1]
    assert [entry.embedding for entry in answer.data] == embed(minilm, ["Hello world", "a"])
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == 4 + 3
    short = client.embeddings.create(model=pagoda_server.MODEL_NAME, input="Hello world", dimensions=16)
    assert len(short.data[0].embedding) == 16


@pytest.mark.parametrize("which", ["minilm", "decoder"])
def test_base64_and_float_are_the_same_bits(which, request):
    server = request.getfixturevalue(which)
    floats, = embed(server, "The same bits", encoding_format="float")
    text, = embed(server, "The same bits", encoding_format="base64")
    raw = base64.b64decode(text, validate=True)
    assert list(struct.unpack(f"<{len(raw) // 4}f", raw)) == floats
    body = post(server, "/v1/embeddings", {"input": "The same bits"}).text
    assert re.search(r'"embedding":\[-?0\.\d{9}', body)


@pytest.mark.parametrize("text, count", [("x", 1), (["x", "y"], 2), ([101, 102], 1), ([[101, 2], [3]], 2),
                                         ("", 1), ([""], 1)])
def test_shapes_of_input(minilm, text, count):
    assert len(embed(minilm, text)) == count


@pytest.mark.parametrize("text", [[], [[]], True, {"a": 1}, None, 1, ["x", 1], [1, "x"], [-1], [[-1]],
                                  [30522], [2147483648], [4294967301], [2 ** 63], [1.5], [True], [None],
                                  [[1], []], ["x"] * 2049])
def test_wrong_input_names_the_field(minilm, text):
    answer = post(minilm, "/v1/embeddings", {"input": text})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "input"
    assert len(embed(minilm, "still there")) == 1


@pytest.mark.parametrize("field, value", [("dimensions", 0), ("dimensions", WIDTH + 1), ("dimensions", "8"),
                                          ("dimensions", 1.5), ("encoding_format", "hex"),
                                          ("encoding_format", 1), ("user", 7),
                                          ("truncate_prompt_tokens", -2), ("truncate_prompt_tokens", 0),
                                          ("model", 1)])
def test_wrong_field_is_named(minilm, field, value):
    answer = post(minilm, "/v1/embeddings", {"input": "x", field: value})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == field


def test_unknown_model(minilm):
    answer = post(minilm, "/v1/embeddings", {"input": "x", "model": "other"})
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "model_not_found"


def test_too_long_and_truncated(minilm):
    text = "word " * 400
    answer = post(minilm, "/v1/embeddings", {"input": ["x", text]})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert answer.json()["error"]["param"] == "input"
    cut = post(minilm, "/v1/embeddings", {"input": text, "truncate_prompt_tokens": -1}).json()
    assert cut["usage"]["prompt_tokens"] == MAX_TOKENS
    # As the tokenizer would have cut it: the special tokens at both ends stay.
    same, = embed(minilm, "word " * (MAX_TOKENS - 2))
    assert cut["data"][0]["embedding"] == same
    assert embed(minilm, "word " * 50, truncate_prompt_tokens=5) == embed(minilm, "word word word")


def test_dimensions_cut_and_normalise(minilm):
    whole, = embed(minilm, "Hello world")
    short, = embed(minilm, "Hello world", dimensions=10)
    assert abs(length(short) - 1) < 1e-6
    for x, y in zip(short, whole[:10]):
        assert abs(x - y / length(whole[:10])) < 1e-6


@pytest.mark.parametrize("which", ["minilm", "decoder"])
def test_the_batch_changes_no_bit(which, request):
    server = request.getfixturevalue(which)
    a = "The batch must not matter."
    alone, = embed(server, a)
    assert embed(server, [a, "something else"])[0] == alone
    assert embed(server, [LONG, a])[1] == alone
    assert all(vector == alone for vector in embed(server, [a] * 64))
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        texts = [[LONG, a] if i % 8 == 0 else ["x", a] if i % 8 == 1 else ["y", a] for i in range(64)]
        for vectors in pool.map(lambda text: embed(server, text), texts):
            assert vectors[1] == alone


def test_special_tokens_in_text_are_text(minilm):
    assert embed(minilm, "a [SEP] b") != embed(minilm, [101, 1037, 102, 1038, 102])


@pytest.mark.parametrize("text", ["A" * 10 ** 6, "us" * 10 ** 5, " " * 10 ** 5, "\n" * 10 ** 5, "." * 10 ** 5,
                                  "中" * 10 ** 5, "<" * 10 ** 6, "a1" * 10 ** 5])
def test_hostile_texts(minilm, text):
    assert post(minilm, "/v1/embeddings", {"input": text}).status_code in (200, 400)
    assert len(embed(minilm, text, truncate_prompt_tokens=-1)) == 1


def test_an_encoder_generates_nothing(minilm):
    chat = {"messages": [{"role": "user", "content": "x"}]}
    for path, body in [("/v1/completions", {"prompt": "x"}), ("/v1/chat/completions", chat),
                       ("/v1/chat/completions", {**chat, "stream": True})]:
        answer = post(minilm, path, body)
        assert answer.status_code == 400, answer.text
        assert "makes embeddings" in answer.json()["error"]["message"]
    models = httpx.get(minilm.url + "/v1/models").json()["data"]
    assert models[0]["max_model_len"] == MAX_TOKENS


def test_a_chat_server_names_the_flag(server):
    for path, body in [("/v1/embeddings", {"input": "x"}), ("/rerank", {"query": "x", "documents": ["y"]}),
                       ("/score", {"text_1": "x", "text_2": "y"})]:
        answer = post(server, path, body)
        assert answer.status_code == 400
        assert "--runner pooling" in answer.json()["error"]["message"]


TOO_LONG = "word " * 400


def test_rerank(minilm):
    documents = ["Berlin is in Germany.", {"text": "Paris is the capital of France."}, "I like cheese."]
    body = {"query": "What is the capital of France?", "documents": documents}
    for path in ("/rerank", "/v1/rerank"):
        results = post(minilm, path, body).json()["results"]
        assert [result["index"] for result in results][0] == 1
        scores = [result["relevance_score"] for result in results]
        assert scores == sorted(scores, reverse=True) and len(scores) == 3
        assert results[0]["document"]["text"] == "Paris is the capital of France."
    best = post(minilm, "/rerank", {**body, "top_n": 1, "return_documents": False}).json()["results"]
    assert len(best) == 1 and best[0]["index"] == 1 and "document" not in best[0]
    query, document = embed(minilm, [body["query"], "Paris is the capital of France."])
    assert abs(scores[0] - cosine(query, document)) < 1e-6
    for field, value in [("documents", []), ("documents", "x"), ("documents", [1]), ("query", None),
                         ("top_n", -1), ("query", TOO_LONG), ("documents", ["x", TOO_LONG])]:
        answer = post(minilm, "/rerank", {**body, field: value})
        assert answer.status_code == 400 and answer.json()["error"]["param"] == field


def test_score(minilm):
    answer = post(minilm, "/score", {"text_1": "a cat", "text_2": ["a cat", "a kitten", "tax law"]}).json()
    scores = [entry["score"] for entry in answer["data"]]
    assert abs(scores[0] - 1) < 1e-6 and scores[0] > scores[1] > scores[2]
    for field in ("text_1", "text_2"):
        answer = post(minilm, "/score", {"text_1": ["a", "b"], "text_2": ["c", "d"], field: ["x", TOO_LONG]})
        assert answer.status_code == 400 and answer.json()["error"]["param"] == field


def test_decoder_embeds_and_generates_nothing(decoder):
    cat, kitten, law = embed(decoder, ["The cat sat on the mat.", "The kitten sat on the mat.",
                                       "Value added tax is due in March."])
    assert abs(length(cat) - 1) < 1e-5
    assert cosine(cat, kitten) > cosine(cat, law)
    assert post(decoder, "/v1/completions", {"prompt": "x"}).status_code == 400
    for path in ("/tokenize", "/apply-template"):
        answer = post(decoder, path, {"messages": [{"role": "user", "content": "x"}]})
        assert answer.status_code == 501 and "makes embeddings" in answer.json()["error"]["message"]


def test_chunks_change_no_bit(decoder, tmp_path_factory):
    texts = [LONG * 4, "short"]
    whole = embed(decoder, texts)
    other = start(tmp_path_factory, "chunks", "--runner", "pooling", "--max-num-batched-tokens", "77",
                  "--max-num-seqs", "8")
    try:
        assert embed(other, texts) == whole
    finally:
        assert other.stop() == 0, other.log()


@pytest.mark.parametrize("pooling", ["mean", "cls", "LAST"])
def test_ways_of_pooling(decoder, tmp_path_factory, pooling):
    last, = embed(decoder, "The way of pooling.")
    other = start(tmp_path_factory, "pooling", "--runner", "pooling", "--pooling-type", pooling)
    try:
        vector, = embed(other, "The way of pooling.")
        assert (vector == last) == (pooling == "LAST")
    finally:
        assert other.stop() == 0, other.log()


def test_clients_that_leave_stop_their_work(minilm):
    body = json.dumps({"input": [LONG] * 2000}).encode()
    head = f"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", minilm.port)) as connection:
            connection.sendall(head + body)
            time.sleep(0.5)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        running = re.findall(r"vllm:num_requests_(?:running|waiting)\{.*\} (\S+)",
                             httpx.get(minilm.url + "/metrics").text)
        if running and all(float(value) == 0 for value in running):
            break
        time.sleep(0.1)
    else:
        pytest.fail("the work of clients that left goes on")
    assert len(embed(minilm, "x")) == 1


def test_a_large_request_delays_a_small_one_by_a_batch(minilm):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        large = pool.submit(embed, minilm, [LONG] * 300)
        time.sleep(0.5)
        embed(minilm, "small")
        assert not large.done()
        assert len(large.result()) == 300


def test_full_queue_is_503(tmp_path_factory, minilm):
    tight = start(tmp_path_factory, "tight", "--max-num-queued-reqs", "1", model=MINILM)
    try:
        body = {"input": [LONG] * 50}
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: post(tight, "/v1/embeddings", body), range(8)))
        statuses = sorted(answer.status_code for answer in answers)
        assert statuses[0] == 200 and statuses[-1] == 503
        refused = next(answer for answer in answers if answer.status_code == 503)
        assert refused.headers["Retry-After"] and refused.json()["error"]["code"] == "server_overloaded"
    finally:
        assert tight.stop() == 0, tight.log()


def test_metrics_count(minilm):
    def value(name):
        text = httpx.get(minilm.url + "/metrics").text
        return float(re.search(rf"^{name}\{{.*\}} (\S+)", text, re.M).group(1))

    before = value("vllm:prompt_tokens_total")
    embed(minilm, "Hello world")
    assert value("vllm:prompt_tokens_total") == before + 4
