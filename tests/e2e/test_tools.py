"""Tool calls of a real model through the openai package: forced by a grammar, whole and streamed."""

import json

import pytest

import pagoda_server

MODEL = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "unit": {"type": "string", "enum": ["C", "F"]},
    },
    "required": ["city", "unit"],
    "additionalProperties": False,
}
WEATHER = {
    "type": "function",
    "function": {"name": "get_weather", "description": "The weather of a city.", "parameters": SCHEMA},
}
TIME = {
    "type": "function",
    "function": {
        "name": "get_time",
        "description": "The time in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
QUESTION = [{"role": "user", "content": "What is the weather in Paris, in degrees Celsius?"}]


@pytest.fixture(scope="module")
def qwen(tmp_path_factory):
    path = pagoda_server.model_path(MODEL)
    if not path.exists():
        pytest.skip(f"no model at {path}; run scripts/fetch_model qwen2.5-coder-0.5b")
    running = pagoda_server.Server(tmp_path_factory.mktemp("qwen") / "log", model=path).wait_ready()
    yield running
    assert running.stop() == 0, running.log()


def ask(server, **fields):
    fields = {"messages": QUESTION, "tools": [WEATHER, TIME], "max_tokens": 200, "temperature": 0, **fields}
    return server.client().chat.completions.create(model=pagoda_server.MODEL_NAME, **fields)


def arguments(message):
    return [json.loads(call.function.arguments) for call in message.tool_calls]


@pytest.mark.parametrize("temperature", [0, 1.5])
def test_required(qwen, temperature):
    choice = ask(
        qwen, tool_choice="required", parallel_tool_calls=False, temperature=temperature, seed=3
    ).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    assert len(choice.message.tool_calls) == 1
    call = choice.message.tool_calls[0]
    given = json.loads(call.function.arguments)
    assert isinstance(given["city"], str)
    if call.function.name == "get_weather":
        assert set(given) == {"city", "unit"} and given["unit"] in ("C", "F") and len(given["city"]) <= 20


def test_named(qwen):
    wanted = {"type": "function", "function": {"name": "get_time"}}
    choice = ask(qwen, tool_choice=wanted).choices[0]
    assert [call.function.name for call in choice.message.tool_calls] == ["get_time"]
    assert "city" in arguments(choice.message)[0]


def test_none_and_auto(qwen):
    assert ask(qwen, tool_choice="none").choices[0].message.tool_calls is None
    choice = ask(qwen).choices[0]
    assert (choice.finish_reason == "tool_calls") == bool(choice.message.tool_calls)


def test_stream_helper_gives_the_same_call(qwen):
    whole = ask(qwen, tool_choice="required", parallel_tool_calls=False).choices[0]
    with qwen.client().chat.completions.stream(
        model=pagoda_server.MODEL_NAME,
        messages=QUESTION,
        tools=[WEATHER, TIME],
        tool_choice="required",
        parallel_tool_calls=False,
        max_tokens=200,
        temperature=0,
    ) as stream:
        deltas = [event for event in stream if event.type == "tool_calls.function.arguments.delta"]
        final = stream.get_final_completion().choices[0]
    assert final.finish_reason == whole.finish_reason == "tool_calls"
    assert final.message.tool_calls[0].function.name == whole.message.tool_calls[0].function.name
    assert final.message.tool_calls[0].function.arguments == whole.message.tool_calls[0].function.arguments
    assert (
        "".join(event.arguments_delta for event in deltas) == whole.message.tool_calls[0].function.arguments
    )
    assert len(deltas) > 3, "arguments come as they are written"


def test_cut_calls_say_length(qwen):
    for max_tokens in range(1, 40, 3):
        choice = ask(qwen, tool_choice="required", parallel_tool_calls=False, max_tokens=max_tokens).choices[
            0
        ]
        for call in choice.message.tool_calls or []:
            try:
                json.loads(call.function.arguments)
            except ValueError:
                assert choice.finish_reason == "length"


def test_a_result_is_used(qwen):
    wanted = {"type": "function", "function": {"name": "get_weather"}}
    message = ask(qwen, tool_choice=wanted).choices[0].message
    turns = [
        *QUESTION,
        message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "It is 21 degrees and sunny."},
    ]
    answer = ask(qwen, messages=turns, tool_choice="none").choices[0].message.content
    assert "21" in answer


def test_schema_that_no_grammar_can_express(qwen):
    wrong = {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "string", "pattern": "(?<=x)y"}},
                "required": ["a"],
            },
        },
    }
    with pytest.raises(Exception) as failure:
        ask(qwen, tools=[wrong], tool_choice="required")
    assert failure.value.status_code == 400
    assert failure.value.param == "tool_choice"
