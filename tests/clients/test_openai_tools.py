"""Helpers of the `openai` and `anthropic` packages: tools, pydantic models, responses, embeddings."""

import asyncio
import json
import math
from typing import List, Literal, Optional

import anthropic
import openai
import pytest
from pydantic import BaseModel, Field

from scripts import ALPHABET, WEATHER, turn

MODEL = "scripted"
QUESTION = [{"role": "user", "content": "Describe a person, as JSON."}]


class Weather(BaseModel):
    city: Literal["Oslo", "Paris"]
    unit: Literal["C", "F"]


class Clock(BaseModel):
    pass


class Person(BaseModel):
    """Every field has an end, because a small model may not find one."""

    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=130)
    tags: List[Literal["old", "young"]] = Field(max_length=2)
    home: Optional[Weather]


TOOLS = [openai.pydantic_function_tool(Weather), openai.pydantic_function_tool(Clock)]
RESPONSE_TOOLS = [
    {"type": "function", "name": "Weather", "parameters": Weather.model_json_schema(), "strict": False}
]


@pytest.fixture
def client(url):
    return openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=60)


@pytest.fixture
def real(model_url):
    return openai.OpenAI(base_url=model_url, api_key="none", max_retries=0, timeout=60)


def test_tools_by_the_stream_helper(client):
    call = {"model": MODEL, "messages": turn("both"), "tools": TOOLS}
    whole = client.chat.completions.create(**call).choices[0]
    with client.chat.completions.stream(**call) as stream:
        events = list(stream)
        final = stream.get_final_completion().choices[0]
    done = [event for event in events if event.type == "tool_calls.function.arguments.done"]
    assert [event.name for event in done] == ["Weather", "Clock"]
    assert done[0].parsed_arguments == Weather(**WEATHER)
    deltas = [event for event in events if event.type == "tool_calls.function.arguments.delta"]
    assert json.loads("".join(event.arguments_delta for event in deltas if event.index == 0)) == WEATHER
    assert final.finish_reason == whole.finish_reason == "tool_calls"
    assert final.message.content == whole.message.content
    for streamed, other in zip(final.message.tool_calls, whole.message.tool_calls, strict=True):
        assert streamed.function.name == other.function.name
        assert streamed.function.arguments == other.function.arguments
        assert streamed.id and other.id and streamed.id != other.id


def test_answer_of_a_tool_goes_back(client):
    first = client.chat.completions.create(model=MODEL, messages=turn("weather"), tools=TOOLS)
    message = first.choices[0].message
    history = turn("weather") + [
        message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "script:alphabet"},
    ]
    second = client.chat.completions.create(model=MODEL, messages=history, tools=TOOLS)
    assert second.choices[0].message.content == ALPHABET
    assert second.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "Weather"}}])
def test_forced_tools_parse(real, choice):
    call = {
        "model": "smollm2",
        "messages": QUESTION,
        "tools": TOOLS[:1],
        "tool_choice": choice,
        "max_tokens": 100,
        "temperature": 0,
    }
    answer = real.chat.completions.parse(**call).choices[0]
    assert answer.finish_reason == "tool_calls"
    assert isinstance(answer.message.tool_calls[0].function.parsed_arguments, Weather)


def test_parse_of_a_pydantic_model(real):
    call = {
        "model": "smollm2",
        "messages": QUESTION,
        "response_format": Person,
        "max_tokens": 200,
        "temperature": 0,
    }
    whole = real.chat.completions.parse(**call).choices[0]
    assert isinstance(whole.message.parsed, Person) and whole.finish_reason == "stop"
    with real.chat.completions.stream(**call) as stream:
        deltas = [event for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion().choices[0]
    assert final.message.parsed == whole.message.parsed
    assert Person(**deltas[-1].parsed) == whole.message.parsed
    with pytest.raises(openai.LengthFinishReasonError):
        real.chat.completions.parse(**{**call, "max_tokens": 3})


def test_async_streams_side_by_side(url):
    async def one(client):
        stream = await client.chat.completions.create(
            model=MODEL, messages=turn("alphabet"), stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        assert chunks[-1].usage.completion_tokens >= 4
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)

    async def several():
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=60) as client:
            return await asyncio.gather(*(one(client) for _ in range(8)))

    assert asyncio.run(several()) == [ALPHABET] * 8


def test_responses_with_tools(client):
    call = {"model": MODEL, "input": "script:weather", "tools": RESPONSE_TOOLS}
    whole = client.responses.create(**call)
    (wanted,) = [item for item in whole.output if item.type == "function_call"]
    assert wanted.name == "Weather" and json.loads(wanted.arguments) == WEATHER
    with client.responses.stream(**call) as stream:
        deltas = [e.delta for e in stream if e.type == "response.function_call_arguments.delta"]
        final = stream.get_final_response()
    assert "".join(deltas) == wanted.arguments
    assert [item.arguments for item in final.output if item.type == "function_call"] == [wanted.arguments]
    history = [
        {"role": "user", "content": "script:weather"},
        wanted.model_dump(exclude_none=True),
        {"type": "function_call_output", "call_id": wanted.call_id, "output": "script:alphabet"},
    ]
    again = client.responses.create(model=MODEL, input=history, tools=RESPONSE_TOOLS)
    assert again.output_text == ALPHABET


def test_responses_parse(real):
    answer = real.responses.parse(
        model="smollm2", input=QUESTION, text_format=Person, max_output_tokens=200, temperature=0
    )
    assert isinstance(answer.output_parsed, Person)


def test_embeddings(embeddings_url):
    client = openai.OpenAI(base_url=embeddings_url, api_key="none", max_retries=0, timeout=60)
    texts = ["A cat sits on the mat.", "There is a cat on the rug.", "Interest rates rose again."]
    answer = client.embeddings.create(model=client.models.list().data[0].id, input=texts)
    cat, kitten, bank = (entry.embedding for entry in answer.data)
    assert len(cat) == 384 and abs(math.dist(cat, [0] * len(cat)) - 1) < 1e-4
    assert math.dist(cat, kitten) + 0.3 < math.dist(cat, bank)
    floats = client.embeddings.create(
        model=client.models.list().data[0].id, input=texts, encoding_format="float"
    )
    assert [entry.embedding for entry in floats.data] == [cat, kitten, bank]


def test_anthropic_tools_whole_and_streamed(url):
    client = anthropic.Anthropic(base_url=url.removesuffix("/v1"), api_key="none", max_retries=0)
    tools = [{"name": "Weather", "input_schema": Weather.model_json_schema()}]
    call = {"model": MODEL, "messages": turn("weather"), "tools": tools, "max_tokens": 300}
    whole = client.messages.create(**call)
    assert whole.stop_reason == "tool_use"
    (used,) = [block for block in whole.content if block.type == "tool_use"]
    assert used.name == "Weather" and used.input == WEATHER
    with client.messages.stream(**call) as stream:
        final = stream.get_final_message()
    assert [block.input for block in final.content if block.type == "tool_use"] == [WEATHER]
    result = {"type": "tool_result", "tool_use_id": used.id, "content": "script:alphabet"}
    history = turn("weather") + [
        {"role": "assistant", "content": [block.model_dump() for block in whole.content]},
        {"role": "user", "content": [result]},
    ]
    again = client.messages.create(model=MODEL, messages=history, tools=tools, max_tokens=300)
    assert again.content[0].text == ALPHABET
