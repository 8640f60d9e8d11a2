"""LangChain and LiteLLM with a base URL, as people plug a server into them."""

import json
import os
from typing import List, Literal

import pytest
from pydantic import BaseModel, Field

from scripts import ALPHABET, WEATHER, turn

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # before its import: no look-up on the network
import litellm  # noqa: E402
from langchain_core.messages import HumanMessage, ToolMessage  # noqa: E402
from langchain_openai import ChatOpenAI, OpenAIEmbeddings  # noqa: E402


class Weather(BaseModel):
    """The weather of a city."""

    city: Literal["Oslo", "Paris"]
    unit: Literal["C", "F"]


class Person(BaseModel):
    """A person."""

    name: str = Field(max_length=12)
    tags: List[Literal["old", "young"]] = Field(max_length=2)


TOOL = {"type": "function", "function": {"name": "Weather", "parameters": Weather.model_json_schema()}}
QUESTION = "Describe a person, as JSON."


def langchain(url, model="scripted", **fields):
    return ChatOpenAI(model=model, base_url=url, api_key="none", max_retries=0, timeout=60, **fields)


def lite(url, model="scripted", **fields):
    return {
        "model": "openai/" + model,
        "api_base": url,
        "api_key": "none",
        "max_retries": 0,
        "timeout": 60,
        **fields,
    }


def test_langchain_whole_and_streamed(url):
    chat = langchain(url, stream_usage=True)
    whole = chat.invoke("script:alphabet")
    assert whole.content == ALPHABET
    assert whole.response_metadata["finish_reason"] == "stop"
    chunks = list(chat.stream("script:alphabet"))
    assert "".join(chunk.content for chunk in chunks) == ALPHABET
    streamed = sum(chunk.usage_metadata["output_tokens"] for chunk in chunks if chunk.usage_metadata)
    assert streamed == whole.usage_metadata["output_tokens"]
    assert [answer.content for answer in chat.batch(["script:alphabet"] * 4)] == [ALPHABET] * 4


def test_langchain_tools(url):
    chat = langchain(url).bind_tools([Weather])
    question = HumanMessage("script:weather")
    whole = chat.invoke([question])
    (call,) = whole.tool_calls
    assert (call["name"], call["args"]) == ("Weather", WEATHER)
    streamed = None
    for chunk in chat.stream([question]):
        streamed = chunk if streamed is None else streamed + chunk
    assert [(made["name"], made["args"]) for made in streamed.tool_calls] == [("Weather", WEATHER)]
    result = ToolMessage("script:alphabet", tool_call_id=call["id"])
    assert chat.invoke([question, whole, result]).content == ALPHABET


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_langchain_structured_output(model_url, method):
    chat = langchain(model_url, "smollm2", temperature=0, max_tokens=200)
    assert isinstance(chat.with_structured_output(Person, method=method).invoke(QUESTION), Person)


def test_langchain_json_mode(model_url):
    chat = langchain(model_url, "smollm2", temperature=0, max_tokens=200)
    answer = chat.bind(
        response_format={"type": "json_object"}, stop=["}"], extra_body={"include_stop_str_in_output": True}
    ).invoke(QUESTION)
    assert answer.content.lstrip().startswith("{")


def test_langchain_responses(url):
    chat = langchain(url, use_responses_api=True)
    assert chat.invoke("script:alphabet").text == ALPHABET
    assert "".join(chunk.text for chunk in chat.stream("script:alphabet")) == ALPHABET
    (call,) = chat.bind_tools([Weather]).invoke("script:weather").tool_calls
    assert (call["name"], call["args"]) == ("Weather", WEATHER)


def test_langchain_embeddings(embeddings_url):
    fields = {"model": "smollm2", "base_url": embeddings_url, "api_key": "none", "max_retries": 0}
    texts = ["A cat sits on the mat.", "Interest rates rose again."]
    plain = OpenAIEmbeddings(check_embedding_ctx_length=False, **fields)  # sends text, not OpenAI's token ids
    vectors = plain.embed_documents(texts)
    assert [len(vector) for vector in vectors] == [384, 384]
    assert plain.embed_query(texts[0]) == pytest.approx(vectors[0], abs=1e-5)


def test_litellm_whole_and_streamed(url):
    whole = litellm.completion(messages=turn("alphabet"), **lite(url))
    assert whole.choices[0].message.content == ALPHABET and whole.usage.completion_tokens > 0
    chunks = list(litellm.completion(messages=turn("alphabet"), stream=True, **lite(url)))
    rebuilt = litellm.stream_chunk_builder(chunks)
    assert rebuilt.choices[0].message.content == ALPHABET
    assert rebuilt.choices[0].finish_reason == whole.choices[0].finish_reason == "stop"


def test_litellm_tools(url):
    call = lite(url, messages=turn("weather"), tools=[TOOL])
    whole = litellm.completion(**call).choices[0].message.tool_calls
    streamed = litellm.stream_chunk_builder(list(litellm.completion(stream=True, **call)))
    for (made,) in (whole, streamed.choices[0].message.tool_calls):
        assert made.function.name == "Weather" and json.loads(made.function.arguments) == WEATHER


def test_litellm_structured_output(model_url):
    messages = [{"role": "user", "content": QUESTION}]
    call = lite(
        model_url, "smollm2", messages=messages, response_format=Person, temperature=0, max_tokens=200
    )
    answer = litellm.completion(**call)
    assert Person.model_validate_json(answer.choices[0].message.content)


def test_litellm_errors_text_completion_and_embeddings(url, embeddings_url):
    with pytest.raises(litellm.BadRequestError):
        litellm.completion(messages=turn("alphabet"), temperature=3, **lite(url))
    with pytest.raises(litellm.NotFoundError):
        litellm.completion(messages=turn("alphabet"), **lite(url, "no-such-model"))
    call = {**lite(url), "model": "text-completion-openai/scripted"}
    assert (
        litellm.text_completion(prompt="script:alphabet", max_tokens=20, **call).choices[0].text == ALPHABET
    )
    answer = litellm.embedding(input=["x", "y"], encoding_format="float", **lite(embeddings_url, "smollm2"))
    assert [len(entry["embedding"]) for entry in answer.data] == [384, 384]
