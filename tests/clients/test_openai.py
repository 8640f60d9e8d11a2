"""The `openai` and `anthropic` packages against the scripted model, whose answers are known."""

import anthropic
import openai
import pytest

ALPHABET = "DEFGHIJ"  # what script:alphabet says, in four pieces


@pytest.fixture
def client(server):
    url = f"http://127.0.0.1:{server.port}/v1"
    return openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=60)


@pytest.fixture
def model(client):
    return client.models.list().data[0].id


def turn(text):
    return [{"role": "user", "content": text}]


def test_completion_whole_and_streamed(client, model):
    whole = client.completions.create(model=model, prompt="script:alphabet", max_tokens=20)
    assert whole.choices[0].text == ALPHABET and whole.choices[0].finish_reason == "stop"
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    chunks = client.completions.create(model=model, prompt="script:alphabet", max_tokens=20, stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == ALPHABET


def test_chat_whole_and_by_the_stream_helper(client, model):
    whole = client.chat.completions.create(model=model, messages=turn("script:alphabet"), max_tokens=20)
    assert whole.choices[0].message.content == ALPHABET
    call = {"model": model, "messages": turn("script:alphabet"), "max_tokens": 20}
    with client.chat.completions.stream(**call) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    assert "".join(deltas) == final.choices[0].message.content == ALPHABET
    assert final.choices[0].finish_reason == "stop"


def test_errors_have_the_classes_of_the_package(client, model):
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(model=model, prompt="x", temperature=3)
    assert error.value.param == "temperature"
    with pytest.raises(openai.NotFoundError) as error:
        client.completions.create(model="no-such-model", prompt="x")
    assert error.value.code == "model_not_found"


def test_responses_whole_and_streamed(client, model):
    whole = client.responses.create(model=model, input="script:alphabet", max_output_tokens=20)
    assert whole.output_text == ALPHABET and whole.status == "completed"
    with client.responses.stream(model=model, input="script:alphabet", max_output_tokens=20) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(deltas) == final.output_text == ALPHABET


def test_anthropic_whole_and_streamed(server, model):
    client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{server.port}", api_key="none", max_retries=0)
    whole = client.messages.create(model=model, messages=turn("script:alphabet"), max_tokens=20)
    assert whole.content[0].text == ALPHABET and whole.stop_reason == "end_turn"
    with client.messages.stream(model=model, messages=turn("script:alphabet"), max_tokens=20) as stream:
        assert "".join(stream.text_stream) == ALPHABET
    counted = client.messages.count_tokens(model=model, messages=turn("script:alphabet"))
    assert counted.input_tokens == whole.usage.input_tokens
