"""What a client gets when it asks for too much or for something that is not there."""
import subprocess

import httpx
import openai
import pytest

from pagoda_server import MODEL_NAME, binary, model_path

CONTEXT_TOKENS = 8192  # of SmolLM2


def test_prompt_beyond_the_context(client):
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(model=MODEL_NAME, prompt="word " * (CONTEXT_TOKENS + 100), max_tokens=1)
    assert error.value.code == "context_length_exceeded"
    assert f"maximum context length is {CONTEXT_TOKENS} tokens" in error.value.message


def test_prompt_and_output_beyond_the_context(client):
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model=MODEL_NAME, messages=[{"role": "user", "content": "Hi"}],
                                       max_tokens=CONTEXT_TOKENS)
    assert error.value.code == "context_length_exceeded"


@pytest.mark.parametrize("field, value", [("temperature", 2.5), ("top_p", 0), ("n", 0), ("max_tokens", -1),
                                          ("presence_penalty", 9), ("temperature", "hot")])
def test_value_out_of_range_names_its_field(server, field, value):
    body = {"model": MODEL_NAME, "prompt": "x", "max_tokens": 1, field: value}
    answer = httpx.post(server.url + "/v1/completions", json=body, timeout=60)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert answer.json()["error"]["param"] == field


def test_bad_json_names_the_byte(server):
    answer = httpx.post(server.url + "/v1/completions", content=b'{"prompt": }',
                        headers={"Content-Type": "application/json"}, timeout=60)
    assert answer.status_code == 400
    assert "11" in answer.json()["error"]["message"] or "12" in answer.json()["error"]["message"]


def test_unknown_model(client):
    with pytest.raises(openai.NotFoundError) as error:
        client.completions.create(model="no-such-model", prompt="x", max_tokens=1)
    assert error.value.code == "model_not_found"


def test_unknown_route_and_wrong_method(server):
    missing = httpx.get(server.url + "/v1/nothing")
    assert missing.status_code == 404
    assert missing.json()["error"]["message"]
    wrong = httpx.get(server.url + "/v1/completions")
    assert wrong.status_code == 405
    assert "POST" in wrong.headers["Allow"]


def test_every_answer_has_a_request_id(server):
    assert httpx.get(server.url + "/health").headers["X-Request-Id"]
    echoed = httpx.get(server.url + "/v1/models", headers={"X-Request-Id": "mine-42"})
    assert echoed.headers["X-Request-Id"] == "mine-42"


@pytest.mark.parametrize("flag", ["--api-key", "--ssl-keyfile", "--enable-lora"])
def test_flag_of_a_missing_feature_is_refused(flag):
    """Such a flag must not be ignored: whoever sets a key relies on it."""
    command = [binary(), "serve", model_path(), flag, "value", "--port", "0"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 2
    assert flag in run.stderr
    assert "value" not in run.stderr
