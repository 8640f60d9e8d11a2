"""Structured outputs on a real model: what comes out validates, wrong grammars harm nobody."""

import concurrent.futures
import json
import re

import httpx
import jsonschema
import pytest

from pagoda_server import MODEL_NAME

MESSAGES = [{"role": "user", "content": "Describe something, as JSON."}]
TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "v": {"type": "integer", "minimum": 0, "maximum": 9},
                "next": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2},
            },
            "required": ["v"],
            "additionalProperties": False,
        }
    },
}


def an_object(properties, **more):
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    } | more


# CASES B102.
SCHEMAS = {
    "empty": {"type": "object", "properties": {}, "additionalProperties": False},
    "enum behind a reference": {"$ref": "#/$defs/E", "$defs": {"E": {"enum": ['a"b', "ü", "\n", 1, None]}}},
    "reference into a list": an_object(
        {"x": {"$ref": "#/$defs/U/anyOf/1"}},
        **{"$defs": {"U": {"anyOf": [{"type": "null"}, {"const": "second"}]}}},
    ),
    "reference with escapes": an_object(
        {"x": {"$ref": "#/$defs/a~1b~0c"}}, **{"$defs": {"a/b~c": {"type": "boolean"}}}
    ),
    "long string": an_object({"s": {"type": "string", "maxLength": 5000}}),
    "short string": an_object({"s": {"type": "string", "minLength": 1, "maxLength": 12}}),
    "constants": an_object({"n": {"const": 12.5}, "o": {"const": {"a": [1, None, "é"]}}}),
    "integer range": an_object({"n": {"type": "integer", "minimum": -5, "maximum": 5}}),
    "pattern": an_object({"code": {"type": "string", "pattern": r"^\d{3}$"}}),
    "recursive": TREE,
    "required without properties": {
        "type": "object",
        "required": ["name"],
        "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "property names": an_object(
        {'q"uote': {"type": "boolean"}, "dot.ted": {"type": "null"}, "größe": {"const": 1}}
    ),
    "tuple of draft 7": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "array",
        "items": [{"type": "boolean"}, {"enum": ["x", "y"]}],
        "additionalItems": False,
        "minItems": 2,
        "maxItems": 2,
    },
    "choice of types": an_object(
        {"x": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "boolean"}, "maxItems": 4}]}}
    ),
    "person": an_object(
        {
            "name": {"type": "string", "maxLength": 30},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "maxItems": 3},
        }
    ),
}
RUNS = 20


def schema_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


def chat(client, **options):
    options = {"max_tokens": 200, "temperature": 0, "messages": MESSAGES} | options
    return client.chat.completions.create(model=MODEL_NAME, **options).choices


def streamed(client, **options):
    options = {"max_tokens": 200, "temperature": 0, "messages": MESSAGES} | options
    text, finish = "", None
    for chunk in client.chat.completions.create(model=MODEL_NAME, stream=True, **options):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    return text, finish


@pytest.mark.parametrize("name", SCHEMAS)
def test_b102_hot_outputs_validate(client, name):
    schema = SCHEMAS[name]
    validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)(schema)
    choices = []
    for seed in range(RUNS // 4):
        choices += chat(
            client, response_format=schema_format(schema), temperature=1.5, seed=seed, n=4, max_tokens=500
        )
    assert len(choices) == RUNS
    finished = [choice.message.content for choice in choices if choice.finish_reason == "stop"]
    if name != "long string":
        assert len(finished) >= RUNS // 2, [choice.message.content[-80:] for choice in choices]
    for text in finished:
        validator.validate(json.loads(text))
    order = [key for key in schema.get("properties", {})]
    for text in finished:
        if order:
            assert list(json.loads(text)) == order


def test_b105_shapes(client, server):
    text = chat(client, response_format=schema_format({"const": "foooooo"}))[0].message.content
    assert text == '"foooooo"'
    for wanted in ({"type": "text"}, None):
        assert chat(client, response_format=wanted, max_tokens=1)
    for wrong in ({"type": "sound"}, {"type": "json_object", "schema": 123}, {"type": "json_schema"}):
        answer = httpx.post(
            server.url + "/v1/chat/completions",
            json={"messages": MESSAGES, "response_format": wrong},
            timeout=30,
        )
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "response_format"


def test_every_kind_of_grammar_with_and_without_a_stream(client):
    lark = 'start: "SELECT " NAME ("," NAME)~0..2\nNAME: /[a-z]{1,8}/\n'
    kinds = {
        "json_object": (
            {"response_format": {"type": "json_object"}},
            lambda t: isinstance(json.loads(t), dict),
        ),
        "choice": (
            {"extra_body": {"structured_outputs": {"choice": ["red", "green", "größer"]}}},
            lambda t: t in ("red", "green", "größer"),
        ),
        "regex": (
            {"extra_body": {"guided_regex": r"[a-f]{4}-\d{2}"}},
            lambda t: re.fullmatch(r"[a-f]{4}-\d{2}", t),
        ),
        "gbnf": (
            {"extra_body": {"grammar": 'root ::= "x" [0-9] [0-9]?'}},
            lambda t: re.fullmatch(r"x\d\d?", t),
        ),
        "lark": (
            {"extra_body": {"guided_grammar": lark}},
            lambda t: re.fullmatch(r"SELECT [a-z]{1,8}(,[a-z]{1,8}){0,2}", t),
        ),
    }
    for name, (options, check) in kinds.items():
        for temperature in (0, 1):
            options = options | {"temperature": temperature, "seed": 5}
            choice = chat(client, **options)[0]
            text, finish = streamed(client, **options)
            assert (text, finish) == (choice.message.content, choice.finish_reason), name
            if finish == "stop":
                assert check(text), (name, text)
            else:
                assert name == "json_object", (name, text)


def test_b103_whitespace_ends(client):
    bias = {token: 100 for token in newline_tokens(client)}
    assert bias
    schema = SCHEMAS["person"]
    choice = chat(client, response_format=schema_format(schema), logit_bias=bias, max_tokens=400)[0]
    assert choice.finish_reason == "stop"
    jsonschema.validate(json.loads(choice.message.content), schema)
    assert not re.search(r"\s{21}", choice.message.content)


def newline_tokens(client):
    url = str(client.base_url).replace("/v1/", "/tokenize")
    tokens = set()
    for text in ("\n", "\n\n", "\t", "\r\n", "\n\n\n"):
        ids = httpx.post(url, json={"prompt": text, "add_special_tokens": False}).json()["tokens"]
        tokens.update(ids)
    return [str(token) for token in tokens]


def test_b030_logprobs_are_those_of_the_raw_logits(server):
    body = {
        "model": MODEL_NAME,
        "messages": MESSAGES,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": 20,
        "guided_choice": ["zebra", "quagga"],
    }
    answer = httpx.post(server.url + "/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 200
    choice = json.loads(answer.text, parse_constant=lambda word: pytest.fail(word))["choices"][0]
    assert choice["message"]["content"] in ("zebra", "quagga")
    first = choice["logprobs"]["content"][0]
    # The model would have said something else.
    assert first["top_logprobs"][0]["logprob"] > first["logprob"]


POISON = [
    *({"guided_regex": text} for text in ("[", "(", "*", "^(|.*)$|x^", "(?<=x)*", "(" * 50000)),
    *(
        {"guided_json": schema}
        for schema in (
            {"type": "object", "properties": {"foo": "bar"}},
            {"type": "hiccup"},
            {"type": 123},
            123,
            "null",
            {"$ref": "#/nope"},
            {"$ref": "#"},
            {"$ref": "http://x/y"},
            {"enum": []},
            {"type": "string", "minLength": 3, "maxLength": 2},
            '{"allOf":[' * 2000 + "{}" + "]}" * 2000,
            {"type": "string", "pattern": "(" * 50000},
        )
    ),
    {"guided_grammar": "root ::= this is (not"},
    {"guided_grammar": "root ::= " + "(" * 60000 + '"a"' + ")" * 60000},
    {"guided_grammar": 'other: "a"'},
    {"guided_choice": []},
    {"guided_regex": "a", "guided_choice": ["b"]},
    {"guided_json": {}, "response_format": {"type": "json_object"}},
]


def test_b100_b101_b124_poison_is_refused_while_others_keep_their_text(client, server):
    def one(number):
        return streamed(
            client, messages=[{"role": "user", "content": f"Count from {number}."}], max_tokens=120
        )

    alone = [one(number) for number in range(8)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        together = [pool.submit(one, number) for number in range(8)]
        for fields in POISON:
            for stream in (False, True):
                answer = httpx.post(
                    server.url + "/v1/chat/completions",
                    timeout=60,
                    json={"messages": MESSAGES, "max_tokens": 5, "stream": stream} | fields,
                )
                assert answer.status_code == 400, (str(fields)[:200], answer.text[:300])
                assert answer.json()["error"]["param"] in fields | {"guided_choice": 0, "response_format": 0}
        assert [future.result() for future in together] == alone


def test_constrained_text_does_not_depend_on_neighbours(client):
    options = {"response_format": schema_format(SCHEMAS["person"]), "temperature": 1.2}
    alone = [chat(client, seed=seed, **options)[0].message.content for seed in range(8)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        together = list(
            pool.map(lambda seed: chat(client, seed=seed, **options)[0].message.content, range(8))
        )
    assert together == alone
