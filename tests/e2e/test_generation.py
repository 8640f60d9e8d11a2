"""Completions and chat: texts, streams, usage, choices, logprobs, stop strings."""
import uuid

from pagoda_server import MODEL_NAME

PROMPT = "The three primary colors are"
MESSAGES = [{"role": "user", "content": "Name three colors, separated by commas."}]
BLOCK_SIZE = 16


def complete(client, prompt=PROMPT, **options):
    options = {"max_tokens": 24, "temperature": 0} | options
    return client.completions.create(model=MODEL_NAME, prompt=prompt, **options)


def chat(client, messages=MESSAGES, **options):
    options = {"max_tokens": 24, "temperature": 0} | options
    return client.chat.completions.create(model=MODEL_NAME, messages=messages, **options)


def streamed_completion(client, **options):
    """The joined text, the finish reason and the usage of one streamed completion."""
    text, finish, usage = "", None, None
    for chunk in complete(client, stream=True, stream_options={"include_usage": True}, **options):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            assert finish is None, "text after the finish reason"
            text += choice.text
            finish = choice.finish_reason
    return text, finish, usage


def streamed_chat(client, **options):
    text, finish, usage, roles = "", None, None, []
    for chunk in chat(client, stream=True, stream_options={"include_usage": True}, **options):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            roles += [choice.delta.role] if choice.delta.role else []
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    assert roles == ["assistant"]
    return text, finish, usage


def test_completion_stream_equals_the_whole(client):
    whole = complete(client)
    assert whole.object == "text_completion"
    assert whole.choices[0].text.strip()
    text, finish, usage = streamed_completion(client)
    assert text == whole.choices[0].text
    assert finish == whole.choices[0].finish_reason
    assert usage.prompt_tokens == whole.usage.prompt_tokens
    assert usage.completion_tokens == whole.usage.completion_tokens


def test_chat_stream_equals_the_whole(client):
    whole = chat(client)
    assert whole.object == "chat.completion"
    assert whole.choices[0].message.role == "assistant"
    assert whole.choices[0].message.content.strip()
    text, finish, usage = streamed_chat(client)
    assert text == whole.choices[0].message.content
    assert finish == whole.choices[0].finish_reason
    assert usage.total_tokens == whole.usage.total_tokens


def test_answers_are_those_of_the_model(client):
    """Weights, tokenizer and template are right only if the model says what its reference says.

    Transformers gives these words with the runner-up at least 0.2 below in every logit.
    """
    answer = chat(client, [{"role": "user", "content": "Explain in three sentences why the sky is blue."}])
    expected = "The sky is blue because of a process called Rayleigh scattering"
    assert answer.choices[0].message.content.startswith(expected)
    counted = complete(client, "One, two, three, four,", max_tokens=16).choices[0].text
    assert counted.startswith(" five, six, seven, eight")


def test_greedy_is_repeatable(client):
    assert complete(client, max_tokens=48).choices[0].text == complete(client, max_tokens=48).choices[0].text


def test_several_prompts_in_one_request(client):
    prompts = [PROMPT, "One, two, three,", "The capital of France is"]
    together = complete(client, prompts)
    assert [choice.index for choice in together.choices] == [0, 1, 2]
    alone = [complete(client, prompt) for prompt in prompts]
    assert [choice.text for choice in together.choices] == [one.choices[0].text for one in alone]
    assert together.usage.prompt_tokens == sum(one.usage.prompt_tokens for one in alone)


def test_usage_adds_up(client):
    usage = complete(client, max_tokens=7, extra_body={"ignore_eos": True}).usage
    assert usage.completion_tokens == 7
    assert usage.prompt_tokens > 0
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_repeated_prompt_is_cached(client):
    """The second run finds every full block before the last prompt token, and gives the same text."""
    prompt = f"Report {uuid.uuid4()}: " + "the cache keeps what it has seen. " * 12
    first = complete(client, prompt)
    second = complete(client, prompt)
    details = first.usage.prompt_tokens_details
    assert details is None or details.cached_tokens in (None, 0)
    expected = (second.usage.prompt_tokens - 1) // BLOCK_SIZE * BLOCK_SIZE
    assert expected > 0
    assert second.usage.prompt_tokens_details.cached_tokens == expected
    assert first.choices[0].text == second.choices[0].text


def test_three_choices_with_a_seed(client):
    def sample(seed):
        response = chat(client, n=3, seed=seed, temperature=1.0, max_tokens=24)
        assert sorted(choice.index for choice in response.choices) == [0, 1, 2]
        return {choice.index: choice.message.content for choice in response.choices}

    first = sample(1234)
    assert sample(1234) == first
    assert len(set(first.values())) > 1, "the choices drew the same random numbers"
    assert sample(4321) != first


def test_completion_logprobs(client):
    choice = complete(client, logprobs=3, max_tokens=12).choices[0]
    scores = choice.logprobs
    assert "".join(scores.tokens) == choice.text
    lists = [scores.tokens, scores.token_logprobs, scores.top_logprobs, scores.text_offset]
    assert {len(one) for one in lists} == {12}
    for token, logprob, top in zip(scores.tokens, scores.token_logprobs, scores.top_logprobs):
        assert logprob <= 0
        assert 3 <= len(top) <= 4
        assert logprob == max(top.values()), f"greedy did not take the most likely token at {token!r}"


def test_chat_logprobs(client):
    choice = chat(client, logprobs=True, top_logprobs=2, max_tokens=12).choices[0]
    entries = choice.logprobs.content
    text = b"".join(bytes(entry.bytes) for entry in entries).decode()
    # An end token has an entry of its own and no text.
    assert text.removesuffix("<|im_end|>") == choice.message.content
    for entry in entries:
        assert entry.logprob <= 0
        assert len(entry.top_logprobs) == 2
        assert entry.top_logprobs[0].logprob == entry.logprob
        assert entry.top_logprobs[0].logprob >= entry.top_logprobs[1].logprob


def test_stop_string_ends_the_text(client):
    whole = complete(client, max_tokens=40).choices[0].text
    middle = len(whole) // 2
    stop = whole[middle:middle + 5]
    expected = whole[:whole.index(stop)]
    stopped = complete(client, max_tokens=40, stop=[stop, "never in the text \u2603"])
    assert stopped.choices[0].text == expected
    assert stopped.choices[0].finish_reason == "stop"
    assert stopped.choices[0].stop_reason == stop
    text, finish, _ = streamed_completion(client, max_tokens=40, stop=stop)
    assert (text, finish) == (expected, "stop")
    kept = complete(client, max_tokens=40, stop=stop, extra_body={"include_stop_str_in_output": True})
    assert kept.choices[0].text == expected + stop


def test_length_is_the_finish_reason_at_max_tokens(client):
    choice = complete(client, max_tokens=3, extra_body={"ignore_eos": True}).choices[0]
    assert choice.finish_reason == "length"
