"""The Messages API through the anthropic package: typed answers, streams, stream helper, counting, errors."""
import anthropic
import pydantic
import pytest
from anthropic.types import Message

from pagoda_server import MODEL_NAME

PROMPT = "Name three colors, separated by commas."
GREEDY = {"temperature": 0}  # newer versions of the package know no sampling fields


@pytest.fixture
def messages(server):
    return anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=300).messages


def create(messages, content=PROMPT, **options):
    options = {"max_tokens": 24, "extra_body": GREEDY} | options
    return messages.create(model=MODEL_NAME, messages=[{"role": "user", "content": content}], **options)


def chat(client, messages, **options):
    options = {"max_tokens": 24, "temperature": 0} | options
    return client.chat.completions.create(model=MODEL_NAME, messages=messages, **options)


def text_of(message):
    """The package builds answers without checking them; this checks every type."""
    Message.model_validate(message.to_dict())
    assert [block.type for block in message.content] == ["text"]
    return message.content[0].text


def input_tokens(usage):
    return usage.input_tokens + usage.cache_read_input_tokens


def test_the_answer_is_that_of_chat(messages, client):
    message = create(messages, system="You are brief.", metadata={"user_id": "u"})
    expected = chat(client, [{"role": "system", "content": "You are brief."},
                             {"role": "user", "content": PROMPT}])
    assert text_of(message) == expected.choices[0].message.content
    reasons = {"stop": "end_turn", "length": "max_tokens"}
    assert message.stop_reason == reasons[expected.choices[0].finish_reason]
    assert input_tokens(message.usage) == expected.usage.prompt_tokens
    assert message.usage.output_tokens == expected.usage.completion_tokens


def test_stop_reasons(messages):
    message = create(messages, "Count from one to one hundred.", max_tokens=5)
    assert (message.stop_reason, message.usage.output_tokens) == ("max_tokens", 5)
    words = text_of(create(messages)).split()
    message = create(messages, stop_sequences=[words[1]])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", words[1])
    assert words[1] not in text_of(message)
    # Clients ask for more than a small model can hold.
    message = create(messages, "Say hello.", max_tokens=100_000)
    assert message.stop_reason in ("end_turn", "model_context_window_exceeded")


def test_stream_equals_the_whole(messages):
    whole = create(messages)
    text, types = "", []
    for event in create(messages, stream=True):
        types.append(event.type)
        if event.type == "content_block_delta":
            text += event.delta.text
        if event.type == "message_delta":
            assert event.delta.stop_reason == whole.stop_reason
            assert event.usage.output_tokens == whole.usage.output_tokens
    assert text == text_of(whole)
    assert types[:2] == ["message_start", "content_block_start"]
    assert types[-3:] == ["content_block_stop", "message_delta", "message_stop"]


def test_stream_helper(messages):
    with messages.stream(model=MODEL_NAME, max_tokens=24, extra_body=GREEDY,
                         messages=[{"role": "user", "content": PROMPT}]) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    whole = create(messages)
    assert text == text_of(final) == text_of(whole)
    assert final.stop_reason == whole.stop_reason
    assert final.usage.output_tokens == whole.usage.output_tokens


def test_blocks_and_turns(messages, client):
    """Blocks of text are joined, neighbours of one role are one turn."""
    turns = [
        {"role": "user", "content": [{"type": "text", "text": "My name is Ada."}]},
        {"role": "user", "content": [{"type": "text", "text": "Greet me.",
                                      "cache_control": {"type": "ephemeral"}}]},
    ]
    message = messages.create(model=MODEL_NAME, max_tokens=24, messages=turns, extra_body=GREEDY)
    expected = chat(client, [{"role": "user", "content": "My name is Ada.\nGreet me."}])
    assert text_of(message) == expected.choices[0].message.content


def test_a_begun_answer_is_continued(messages):
    whole = text_of(create(messages))
    begun = whole[: len(whole) // 2].rstrip()
    turns = [{"role": "user", "content": PROMPT}, {"role": "assistant", "content": begun}]
    rest = text_of(messages.create(model=MODEL_NAME, max_tokens=24, messages=turns, extra_body=GREEDY))
    assert rest and not rest.startswith(begun)


def test_count_tokens(messages):
    turns = [{"role": "user", "content": PROMPT}]
    counted = messages.count_tokens(model=MODEL_NAME, messages=turns, system="You are brief.")
    message = create(messages, system="You are brief.", max_tokens=1)
    assert counted.input_tokens == input_tokens(message.usage)


@pytest.mark.parametrize("options, part", [
    ({"extra_body": {"temperature": 1.5}}, "temperature"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type"),
    ({"thinking": {"type": "enabled", "budget_tokens": 10}}, "thinking.budget_tokens"),
    ({"content": [{"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}]},
     "messages[0].content[0].type"),
])
def test_errors_name_the_field(messages, options, part):
    for stream in (False, True):
        with pytest.raises(anthropic.BadRequestError) as caught:
            create(messages, stream=stream, **options)
        assert part in caught.value.message
        assert caught.value.body["error"]["type"] == "invalid_request_error"
        assert caught.value.request_id


def test_unknown_model(messages):
    with pytest.raises(anthropic.NotFoundError) as caught:
        messages.create(model="nope", max_tokens=5, messages=[{"role": "user", "content": "hi"}])
    assert caught.value.body["error"]["type"] == "not_found_error"


class Weather(pydantic.BaseModel):
    city: str
    celsius: bool


WEATHER = {"name": "weather", "description": "The weather of a city.",
           "input_schema": Weather.model_json_schema()}


def test_a_tool_is_called_and_answered(messages):
    turns = [{"role": "user", "content": "How is the weather in Paris, in Celsius?"}]
    options = {"model": MODEL_NAME, "max_tokens": 100, "tools": [WEATHER], "extra_body": GREEDY}
    first = messages.create(messages=turns, tool_choice={"type": "tool", "name": "weather"}, **options)
    Message.model_validate(first.to_dict())
    assert [block.type for block in first.content] == ["tool_use"]
    assert first.stop_reason == "tool_use"
    Weather.model_validate(first.content[0].input)
    result = {"type": "tool_result", "tool_use_id": first.content[0].id, "content": "18 degrees, sunny"}
    turns += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    second = messages.create(messages=turns, tool_choice={"type": "none"}, **options)
    assert text_of(second)


def test_a_streamed_call_equals_the_whole(messages):
    options = {"model": MODEL_NAME, "max_tokens": 100, "tools": [WEATHER], "extra_body": GREEDY,
               "tool_choice": {"type": "any"},
               "messages": [{"role": "user", "content": "The weather in Rome?"}]}
    whole = messages.create(**options)
    with messages.stream(**options) as stream:
        final = stream.get_final_message()
    assert [(b.name, b.input) for b in final.content] == [(b.name, b.input) for b in whole.content] != []
    assert final.stop_reason == whole.stop_reason == "tool_use"
