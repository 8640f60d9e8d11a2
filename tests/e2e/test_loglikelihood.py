"""Scores as lm-evaluation-harness asks for them (echo, logprobs, max_tokens 0 or 1)."""

import json
import math
import pathlib

import pytest

from pagoda_server import MODEL_NAME

REFERENCE = json.loads((pathlib.Path(__file__).parent / "loglikelihood_reference.json").read_text())
TOLERANCE = 0.02  # nats
BATCH = 8


@pytest.fixture
def exact(start_server):
    return start_server("--dtype", "float32").client()


def score(choice, context, continuation, max_tokens):
    """The harness's reading of a choice: the sum over the continuation, and whether it is the greedy one."""
    logprobs = choice.logprobs
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.top_logprobs)
    assert len(logprobs.token_logprobs) == len(context) + len(continuation) + max_tokens
    assert logprobs.token_logprobs[0] is None and logprobs.top_logprobs[0] is None
    end = len(context) + len(continuation)
    scores = logprobs.token_logprobs[len(context) : end]
    tops = logprobs.top_logprobs[len(context) : end]
    tokens = logprobs.tokens[len(context) : end]
    greedy = all(max(top, key=top.get) == token for token, top in zip(tokens, tops))
    return sum(scores), greedy


def test_50_items(exact):
    worst = 0.0
    items = REFERENCE["items"]
    assert len(items) == 50
    for start in range(0, len(items), BATCH):
        batch = items[start : start + BATCH]
        for max_tokens in (0, 1):
            answer = exact.completions.create(
                model=MODEL_NAME,
                prompt=[item["context"] + item["continuation"] for item in batch],
                echo=True,
                max_tokens=max_tokens,
                logprobs=1,
                temperature=0,
                seed=1234,
            )
            assert [choice.index for choice in answer.choices] == list(range(len(batch)))
            assert answer.usage.completion_tokens == max_tokens * len(batch)
            for item, choice in zip(batch, answer.choices):
                found, _ = score(choice, item["context"], item["continuation"], max_tokens)
                assert found <= 0 and not math.isnan(found)
                worst = max(worst, abs(found - item["score"]))
    print(f"worst difference {worst:.5f} nats")
    assert worst <= TOLERANCE


def test_prompts_of_text(exact):
    for text in REFERENCE["texts"]:
        for max_tokens in (0, 1):
            answer = exact.completions.create(
                model=MODEL_NAME,
                prompt=[text["text"]] * 2,
                echo=True,
                max_tokens=max_tokens,
                logprobs=5,
                temperature=0,
                extra_body={"return_token_ids": True},
            )
            for choice in answer.choices:
                assert choice.prompt_token_ids == text["ids"]
                assert choice.text.startswith(text["text"])
                found = choice.logprobs.token_logprobs[1 : len(text["ids"])]
                assert max(abs(a - b) for a, b in zip(found, text["scores"], strict=True)) <= TOLERANCE
                if max_tokens == 0:
                    assert choice.text == text["text"]
                    assert choice.finish_reason == "length"


def test_greedy_is_seen(exact):
    """What the model says itself is the greedy continuation of its prompt; a changed token is not."""
    context = REFERENCE["texts"][0]["ids"]
    said = (
        exact.completions.create(
            model=MODEL_NAME,
            prompt=context,
            max_tokens=6,
            temperature=0,
            extra_body={"return_token_ids": True},
        )
        .choices[0]
        .token_ids
    )
    other = said[:-1] + [said[-1] + 1]
    answer = exact.completions.create(
        model=MODEL_NAME,
        prompt=[context + said, context + other],
        echo=True,
        max_tokens=1,
        logprobs=1,
        temperature=0,
    )
    assert score(answer.choices[0], context, said, 1)[1] is True
    assert score(answer.choices[1], context, other, 1)[1] is False


def test_the_same_twice_and_in_any_batch(exact):
    """A prefix that is cached and the other prompts of a request change nothing (CASES B033)."""
    items = REFERENCE["items"][:6]
    prompts = [item["context"] + item["continuation"] for item in items]

    def ask(prompt):
        answer = exact.completions.create(
            model=MODEL_NAME, prompt=prompt, echo=True, max_tokens=0, logprobs=2
        )
        return [choice.logprobs.token_logprobs for choice in answer.choices]

    together = ask(prompts)
    assert ask(prompts) == together
    assert [ask([prompt])[0] for prompt in prompts] == together
