"""The Responses API through the openai package: typed answers, streams, stream helper, items, errors."""
import openai
import pydantic
import pytest
from openai.types.responses import Response

from pagoda_server import MODEL_NAME

PROMPT = "Name three colors, separated by commas."


def respond(client, content=PROMPT, **options):
    options = {"max_output_tokens": 24, "temperature": 0} | options
    return client.responses.create(model=MODEL_NAME, input=content, **options)


def chat(client, messages, **options):
    options = {"max_tokens": 24, "temperature": 0} | options
    return client.chat.completions.create(model=MODEL_NAME, messages=messages, **options)


def validated(response):
    """The package builds answers without checking them; this checks every type."""
    Response.model_validate(response.to_dict())
    return response


def test_the_answer_is_that_of_chat(client):
    response = validated(respond(client, instructions="You are brief.", metadata={"k": "v"}))
    expected = chat(client, [{"role": "system", "content": "You are brief."},
                             {"role": "user", "content": PROMPT}])
    assert response.output_text == expected.choices[0].message.content
    assert response.usage.input_tokens == expected.usage.prompt_tokens
    assert response.usage.output_tokens == expected.usage.completion_tokens
    assert response.metadata == {"k": "v"}
    assert response.output[0].type == "message"
    assert response.output[0].content[0].type == "output_text"


def test_the_length_limit_makes_it_incomplete(client):
    response = validated(respond(client, "Count from one to one hundred.", max_output_tokens=5))
    assert response.status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.usage.output_tokens == 5


def test_stream_equals_the_whole(client):
    whole = respond(client)
    text, types, numbers, last = "", [], [], None
    for event in respond(client, stream=True):
        types.append(event.type)
        numbers.append(event.sequence_number)
        if event.type == "response.output_text.delta":
            text += event.delta
        last = event
    assert types[:4] == ["response.created", "response.in_progress", "response.output_item.added",
                         "response.content_part.added"]
    assert numbers == list(range(len(numbers)))
    assert last.type == "response." + whole.status
    assert text == whole.output_text == validated(last.response).output_text
    assert last.response.usage.total_tokens == whole.usage.total_tokens


def test_stream_helper(client):
    with client.responses.stream(model=MODEL_NAME, input="Say hello.", temperature=0) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        final = stream.get_final_response()
    assert final.status == "completed"
    assert final.output_text == text != ""


def test_output_goes_back_as_input(client):
    """A stateless conversation: what came out is sent again, ids and all."""
    question = {"role": "user", "content": "My name is Ada. Greet me."}
    first = respond(client, [question])
    items = [question, *[item.to_dict() for item in first.output],
             {"role": "user", "content": [{"type": "input_text", "text": "Again."}]}]
    second = validated(respond(client, items))
    expected = chat(client, [question, {"role": "assistant", "content": first.output_text},
                             {"role": "user", "content": "Again."}])
    assert second.output_text == expected.choices[0].message.content


def test_logprobs(client):
    response = respond(client, include=["message.output_text.logprobs"], top_logprobs=2)
    entries = response.output[0].content[0].logprobs
    assert "".join(entry.token for entry in entries).startswith(response.output_text)
    for entry in entries:
        assert len(entry.top_logprobs) == 2
        assert entry.logprob <= entry.top_logprobs[0].logprob + 1e-6


def test_sampling_fields_of_the_server(client):
    options = {"temperature": 1.0, "extra_body": {"seed": 11, "top_k": 40}}
    assert respond(client, **options).output_text == respond(client, **options).output_text


@pytest.mark.parametrize("options, param", [
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"background": True}, "background"),
    ({"conversation": "conv_1"}, "conversation"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"truncation": "auto"}, "truncation"),
    ({"temperature": 3}, "temperature"),
    ({"max_output_tokens": 0}, "max_output_tokens"),
])
def test_errors_name_the_field(client, options, param):
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as caught:
            respond(client, stream=stream, **options)
        assert caught.value.param == param


def test_unknown_model(client):
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="nope", input="hi")


class Weather(pydantic.BaseModel):
    city: str
    celsius: bool


WEATHER = {"type": "function", "name": "weather", "description": "The weather of a city.", "strict": True,
           "parameters": Weather.model_json_schema()}


def test_a_tool_is_called_and_answered(client):
    question = {"role": "user", "content": "How is the weather in Paris, in Celsius?"}
    options = {"tools": [WEATHER], "max_output_tokens": 100}
    choice = {"type": "function", "name": "weather"}
    first = validated(respond(client, [question], tool_choice=choice, **options))
    assert [item.type for item in first.output] == ["function_call"]
    call = first.output[0]
    assert call.name == "weather"
    Weather.model_validate_json(call.arguments)
    items = [question, call.to_dict(),
             {"type": "function_call_output", "call_id": call.call_id, "output": "18 degrees, sunny"}]
    second = validated(respond(client, items, tool_choice="none", **options))
    assert second.output_text


def test_a_streamed_call_equals_the_whole(client):
    options = {"tools": [WEATHER], "tool_choice": "required", "max_output_tokens": 100}
    whole = respond(client, "The weather in Rome?", **options)
    arguments, names = "", []
    for event in respond(client, "The weather in Rome?", stream=True, **options):
        if event.type == "response.function_call_arguments.delta":
            arguments += event.delta
        if event.type == "response.output_item.added":
            names.append(event.item.name)
    assert names == [item.name for item in whole.output] != []
    assert arguments == "".join(item.arguments for item in whole.output)


def test_parse_gives_a_typed_answer(client):
    answer = client.responses.parse(model=MODEL_NAME, input="The weather in Rome, as JSON.", temperature=0,
                                    max_output_tokens=100, text_format=Weather)
    assert isinstance(answer.output_parsed, Weather)
