"""A long prompt: the comments that keep a stream alive disturb no client."""

import anthropic
import client as protocol
import openai
import pytest

SCRIPTS = {
    "late": {"pieces": ["on", "ce"], "delay_ms": 150},
    "late6": {"pieces": [{"id": 6}], "delay_ms": 150},
}
PROMPT = [{"role": "user", "content": "script:late"}]


@pytest.fixture(scope="module")
def base():
    server = protocol.Server(scripts=SCRIPTS, sse_ping_ms=20)
    yield f"http://127.0.0.1:{server.port}"
    assert server.stop() == 0


def test_comments_come_before_the_first_token(base):
    server = protocol.Server(scripts=SCRIPTS, sse_ping_ms=20)
    for path, body in (
        ("/v1/chat/completions", {"messages": PROMPT}),
        ("/v1/completions", {"prompt": "script:late"}),
        ("/v1/responses", {"input": "script:late"}),
        ("/v1/messages", {"messages": PROMPT, "max_tokens": 10}),
    ):
        status, headers, data = server.request(path, {**body, "stream": True})
        assert status == 200 and headers["content-type"].startswith("text/event-stream")
        lines = data.decode().split("\n\n")
        comments = [i for i, line in enumerate(lines) if line.startswith(": ")]
        assert comments and comments == list(range(len(comments))), lines
    assert server.stop() == 0


def test_openai(base):
    client = openai.OpenAI(base_url=base + "/v1", api_key="none", max_retries=0)
    chat = client.chat.completions.create(model="scripted", messages=PROMPT, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chat) == "once"
    completion = client.completions.create(model="scripted", prompt="script:late", stream=True)
    assert "".join(chunk.choices[0].text for chunk in completion) == "once"
    with client.responses.stream(model="scripted", input="script:late") as stream:
        assert stream.get_final_response().output_text == "once"


def test_anthropic(base):
    client = anthropic.Anthropic(base_url=base, api_key="none", max_retries=0)
    with client.messages.stream(model="scripted", max_tokens=10, messages=PROMPT) as stream:
        assert stream.get_final_text() == "once"


def test_errors_after_a_comment(base):
    prompt = [{"role": "user", "content": "script:late6"}]
    client = openai.OpenAI(base_url=base + "/v1", api_key="none", max_retries=0)
    with pytest.raises(openai.APIError):
        list(client.chat.completions.create(model="scripted", messages=prompt, stream=True))
    events = list(client.responses.create(model="scripted", input="script:late6", stream=True))
    assert events[-1].type == "response.failed" and events[-1].response.error
    client = anthropic.Anthropic(base_url=base, api_key="none", max_retries=0)
    with pytest.raises(anthropic.APIError):
        with client.messages.stream(model="scripted", max_tokens=10, messages=prompt) as stream:
            stream.get_final_text()
