"""Wrong requests disturb nobody: each gets its 4xx while eight streams run, whose texts stay what they are.

The wrong values of every field are made from the server's own /openapi.json.
"""
import concurrent.futures
import json
import threading

import httpx
import pytest

from pagoda_server import MODEL_NAME

STREAMS = 8
RSS_GROWTH_BYTES = 64 << 20  # of thousands of requests; one leaked body of a few is more than that in sum
HUGE = 10**30

# Bodies that make a request right but for one field.
BASES = {
    "/v1/completions": {"prompt": "x", "max_tokens": 1},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1},
    "/v1/responses": {"input": "x", "max_output_tokens": 1},
    "/v1/messages": {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1},
    "/tokenize": {"prompt": "x"},
    "/detokenize": {"tokens": [1]},
    "/apply-template": {"messages": [{"role": "user", "content": "x"}]},
}
# What only a request with messages reads.
TOKENIZE_PROMPT_FIELDS = {"model", "prompt", "add_special_tokens", "parse_special", "return_token_strs"}
# Fields of features that this version lacks: a 501 that names the field is right, too, whatever its value.
NOT_BUILT = {"use_beam_search"}
# The old form of tool_choice, whose errors name the new one while there are no tools.
OTHER_NAME = {"function_call": "tool_choice"}
OF_TYPE = {"string": "x", "integer": 1, "number": 0.5, "boolean": True, "array": [[]], "object": {"zz": 1},
           "null": None}


def types_of(schema):
    if "anyOf" in schema:
        return set().union(*(types_of(part) for part in schema["anyOf"]))
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return set(names)
    values = schema.get("enum", [schema.get("const")])
    return {{bool: "boolean", str: "string", type(None): "null"}[type(value)] for value in values}


def wrong_values(schema):
    """(what, value) that the schema of a field does not allow."""
    allowed = types_of(schema)
    for name, value in OF_TYPE.items():
        if name == "null" or name in allowed or (name == "integer" and "number" in allowed):
            continue
        yield name, value
    if "minimum" in schema:
        yield "below the range", schema["minimum"] - 1
    if "exclusiveMinimum" in schema:
        yield "at the open end", schema["exclusiveMinimum"]
    if "maximum" in schema:
        yield "above the range", schema["maximum"] + 1
    if "integer" in allowed:
        yield "beyond 64 bits", HUGE
        yield "a fraction", 1.5
    for part in schema.get("anyOf", [schema]):
        if "maxItems" in part and part["maxItems"] <= 4096:
            yield "too many", ["a"] * (part["maxItems"] + 1)
        if part.get("minItems") == 1:
            yield "empty list", []
        if part.get("maxProperties"):
            yield "too many entries", {f"k{i}": "v" for i in range(part["maxProperties"] + 1)}
        if part.get("minLength") == 1 and "anyOf" not in schema:
            yield "empty text", ""
        if "enum" in part:
            yield "another word", "no-such-word"


def field_cases(document):
    """(path, field, what, body) of every field of every route."""
    for path, base in BASES.items():
        content = document["paths"][path]["post"]["requestBody"]["content"]
        for name, schema in content["application/json"]["schema"]["properties"].items():
            for what, value in wrong_values(schema):
                body = {**base, name: value}
                if path == "/tokenize" and name not in TOKENIZE_PROMPT_FIELDS:
                    body = {**BASES["/apply-template"], name: value}
                if name == "stream_options":
                    body["stream"] = True
                yield path, name, what, body


def depth(levels):
    return b'{"prompt":"x","zz":' + b"[" * levels + b"]" * levels + b"}"


# Sections C, D and H: what the schema of one field can't say. Raw bytes, or (path, body).
RAW = [b"", b"[]", b'"x"', b"{", b'{"prompt":"x"}{}', b'{"prompt":"\xff\xfe"}', b'{"prompt":"\xed\xa0\x80"}',
       b'\xef\xbb\xbf{"prompt":"x"}', '{"prompt":"x"}'.encode("utf-16"), b'{"prompt":"x"}\0',
       b'{"prompt":"x","temperature":NaN}', b'{"prompt":"x","temperature":Infinity}',
       b'{"prompt":"x","seed":01}',
       b'{"prompt":"x","temperature":1e999}', b'{"prompt":"x","top_p":.5}', b'{"prompt":"x",}',
       b"{'prompt':'x'}", b'{"prompt":"x"/**/}', b'{"prompt":"x","n":1,"n":2}',
       depth(1000), depth(10000), depth(1000000)]
COMPLETIONS = [{"prompt": prompt} for prompt in
               ("", [""], [], [[]], ["a", ""], None, 5, {}, [-1], [[-1]], [10**7], [2**31], [2**32 + 5],
               [2**63],
                [1.5], [1, "a"], [True], [None], ["x"] * 100000)]
COMPLETIONS += [{"prompt": "x", "logit_bias": bias} for bias in
                ({"-1": 1}, {"999999999": 5}, {"4294967301": 5}, {"abc": 1}, {"1.5": 1}, {"5": 101},
                {"5": "x"},
                 {"5": None})]
COMPLETIONS += [{"prompt": "x", **fields} for fields in
                ({"n": 10**6}, {"best_of": 10**6}, {"stop": ["a"] * 10**5}, {"logprobs": 25},
                {"logprobs": -1},
                 {"logprobs": 10**9}, {"prompt_logprobs": -1}, {"max_tokens": 2**31},
                 {"max_tokens": 2**63 - 1},
                 {"seed": 2**63}, {"seed": "1"}, {"stream_options": {}},
                 {"response_format": {"type": "sound"}},
                 {"response_format": {"type": "json_schema"}}, {"guided_regex": ""}, {"guided_choice": []})]
COMPLETIONS.append({"prompt": "x " * 20000})
CHATS = [{"messages": m} for m in (None, "x", [], [123], [{}], [{"role": 123}], [{"content": "x"}],
                                   [{"role": "user", "content": 123}], [{"role": "user", "content": {}}],
                                   [{"role": "user", "content": [{"type": "text"}]}],
                                   [{"role": "user", "content": [{"type": "zzz"}]}],
                                   [{"role": "user", "content": []}])]
CHATS += [{"messages": [{"role": "user", "content": "x"}], **fields} for fields in
          ({"max_tokens": 0}, {"top_logprobs": 2}, {"logprobs": True, "top_logprobs": 21},
           {"tool_choice": "required"}, {"tool_choice": "foo"},
           {"tool_choice": {"type": "function", "function": {}}})]


def listed_cases():
    yield from (("/v1/completions", raw) for raw in RAW)
    yield from (("/v1/completions", {"max_tokens": 1, **body}) for body in COMPLETIONS)
    yield from (("/v1/chat/completions", {"max_tokens": 1, **body}) for body in CHATS)


def post(client, path, body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.post(path, content=data, headers={"Content-Type": "application/json"})


def stream_text(server, index):
    body = {"model": MODEL_NAME, "prompt": f"Story number {index}:", "max_tokens": 48, "temperature": 0.8,
            "seed": index, "ignore_eos": True, "stream": True}
    pieces = []
    with httpx.stream("POST", server.url + "/v1/completions", json=body, timeout=300) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                pieces += [choice["text"] for choice in json.loads(line[6:])["choices"]]
    return "".join(pieces)


def rss_bytes(server):
    with open(f"/proc/{server.process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


class Streams:
    """Eight streams that start again until told to end; `wrong` has the texts that were not as expected."""

    def __init__(self, server):
        self.server, self.wrong, self.rounds = server, [], 0
        self.expected = [stream_text(server, index) for index in range(STREAMS)]
        self.stop, self.lock = threading.Event(), threading.Lock()

    def __enter__(self):
        self.pool = concurrent.futures.ThreadPoolExecutor(STREAMS)
        self.futures = [self.pool.submit(self.run, index) for index in range(STREAMS)]
        return self

    def run(self, index):
        while True:
            text = stream_text(self.server, index)
            with self.lock:
                self.rounds += 1
                if text != self.expected[index]:
                    self.wrong.append((index, text))
            if self.stop.is_set():
                return

    def __exit__(self, *_):
        self.stop.set()
        for future in self.futures:
            future.result(300)
        self.pool.shutdown()


@pytest.fixture
def streams(server):
    return Streams(server)


def check_undisturbed(streams, before):
    assert streams.rounds >= STREAMS
    assert not streams.wrong, f"{len(streams.wrong)} of {streams.rounds} texts changed: {streams.wrong[0]}"
    assert rss_bytes(streams.server) - before < RSS_GROWTH_BYTES


def test_every_field_wrong_while_streams_run(server, streams):
    document = httpx.get(server.url + "/openapi.json", timeout=60).json()
    cases = list(field_cases(document))
    assert len(cases) > 500
    bad = []
    with httpx.Client(base_url=server.url, timeout=120) as client, streams:
        for path, name, what, body in cases[:40]:  # what the first requests of each kind take stays
            post(client, path, body)
        before = rss_bytes(server)
        for path, name, what, body in cases:
            answer = post(client, path, body)
            error = answer.json().get("error", {})
            param = error.get("param") or ""
            right = (400, 501) if name in NOT_BUILT else (400,)
            named = param in (name, OTHER_NAME.get(name, name)) or param.startswith((name + ".", name + "["))
            if answer.status_code not in right or not named:
                bad.append((path, name, what, answer.status_code, param, error.get("message")))
    check_undisturbed(streams, before)
    assert not bad, f"{len(bad)} of {len(cases)}:\n" + "\n".join(map(str, bad[:40]))


def test_poison_list_while_streams_run(server, streams):
    bad = []
    with httpx.Client(base_url=server.url, timeout=120) as client, streams:
        cases = list(listed_cases())
        for path, body in cases:
            post(client, path, body)
        before = rss_bytes(server)
        for path, body in cases:
            answer = post(client, path, body)
            error = answer.json().get("error", {})
            unbuilt = answer.status_code == 501 and error.get("param") in NOT_BUILT
            if not (answer.status_code in (400, 413) or unbuilt) or not error.get("message"):
                bad.append((path, repr(body)[:120], answer.status_code, error.get("message")))
    check_undisturbed(streams, before)
    assert not bad, f"{len(bad)} of {len(cases)}:\n" + "\n".join(map(str, bad[:40]))
