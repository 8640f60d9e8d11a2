"""Instructor, which asks for pydantic models in several ways and asks again when an answer does not fit. It
needs an older `openai` than the other tests, hence its own environment."""

import asyncio
from typing import Iterable, List, Literal

import instructor
import openai
import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator

from scripts import PERSON, WEATHER, turn

QUESTION = [{"role": "user", "content": "Describe a person, as JSON."}]


class Person(BaseModel):
    name: str
    age: int
    tags: List[str]


class Weather(BaseModel):
    city: Literal["Oslo", "Paris"]
    unit: Literal["C", "F"]


class Short(BaseModel):
    """Every field has an end and there are no others, because a small model may not find one."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=12)
    tags: List[Literal["old", "young"]] = Field(max_length=2)


def client(url, mode, kind=openai.OpenAI):
    asking = kind(base_url=url, api_key="none", max_retries=0, timeout=60)
    return instructor.from_openai(asking, mode=instructor.Mode[mode])


def ask_the_model(model=Short, **fields):
    call = {"model": "smollm2", "messages": QUESTION, "max_tokens": 600, "temperature": 0, "max_retries": 0}
    return {**call, "response_model": model, **fields}


def test_model_from_a_block_of_text(url):
    made = client(url, "MD_JSON").chat.completions.create(
        model="scripted", messages=turn("person"), response_model=Person, max_retries=0
    )
    assert made.model_dump() == PERSON


@pytest.mark.parametrize("mode", ["JSON_SCHEMA", "TOOLS", "TOOLS_STRICT"])
def test_enforced_model(model_url, mode):
    assert isinstance(client(model_url, mode).chat.completions.create(**ask_the_model()), Short)


@pytest.mark.parametrize("mode", ["JSON_SCHEMA", "TOOLS"])
def test_partial_models_grow(model_url, mode):
    asking = client(model_url, mode).chat.completions
    seen = list(asking.create_partial(**ask_the_model()))
    assert len(seen) > 3 and seen[0].tags is None
    assert Short.model_validate(seen[-1].model_dump())  # another name of the tool, hence another answer


def test_calls_side_by_side(url):
    made = client(url, "PARALLEL_TOOLS").chat.completions.create(
        model="scripted", messages=turn("weather"), response_model=Iterable[Weather], max_retries=0
    )
    assert [one.model_dump() for one in made] == [WEATHER]


def test_asks_again_with_the_error(model_url):
    """The second prompt holds the call and a tool's answer that says what was wrong with it."""
    names = []

    class Picky(Short):
        @field_validator("name")
        @classmethod
        def not_the_first(cls, name):
            names.append(name)
            if len(names) == 1:
                raise ValueError("another name, please")
            return name

    made = client(model_url, "TOOLS").chat.completions.create(**ask_the_model(Picky, max_retries=2))
    assert len(names) == 2 and made.name == names[1]


def test_async(model_url):
    async def several():
        asking = client(model_url, "JSON_SCHEMA", openai.AsyncOpenAI).chat.completions
        return await asyncio.gather(*(asking.create(**ask_the_model()) for _ in range(4)))

    made = asyncio.run(several())
    assert len(made) == 4 and all(isinstance(one, Short) for one in made)
