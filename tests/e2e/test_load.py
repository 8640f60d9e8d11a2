"""Many clients at once, and clients that go away: texts stay right, and every KV block comes back."""
import asyncio
import concurrent.futures
import json
import random
import re
import socket
import struct
import time

import pytest

from pagoda_server import MODEL_NAME

TOPICS = ["rivers", "bread", "the moon", "chess", "rain", "copper", "bees", "maps"]


def mixed_chats(count, seed):
    """(messages, max_tokens) of different lengths: a few words to several prompt chunks, 1 to 48 tokens."""
    rng = random.Random(seed)
    chats = []
    for number in range(count):
        filler = " ".join(rng.choice(TOPICS) for _ in range(rng.choice([0, 3, 20, 120, 400])))
        question = f"Chat {number}. {filler} Write one sentence about {rng.choice(TOPICS)}."
        chats.append(([{"role": "user", "content": question}], rng.choice([1, 4, 16, 48])))
    return chats


async def streamed(client, messages, max_tokens):
    text, finish = "", None
    stream = await client.chat.completions.create(model=MODEL_NAME, messages=messages, max_tokens=max_tokens,
                                                  temperature=0, stream=True)
    async for chunk in stream:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    return text, finish


def test_64_concurrent_chats_equal_each_alone(server):
    chats = mixed_chats(64, seed=1)

    async def together():
        async with server.async_client() as client:
            return await asyncio.gather(*(streamed(client, *chat) for chat in chats))

    concurrent_answers = asyncio.run(together())

    async def one_by_one():
        async with server.async_client() as client:
            return [await streamed(client, *chat) for chat in chats]

    alone = asyncio.run(one_by_one())
    different = [number for number in range(len(chats)) if concurrent_answers[number] != alone[number]]
    assert not different, [(concurrent_answers[n], alone[n]) for n in different[:3]]
    assert all(finish in ("stop", "length") for _, finish in alone)
    snapshot = server.wait_unused()
    assert snapshot["used"] == 0
    assert snapshot["free"] + snapshot["cached"] == snapshot["total"]
    assert snapshot["requests"] == []


def disconnect_once(port, rng):
    """Sends a long request and leaves at some moment: mid-request, before the answer, or in the stream."""
    prompt = " ".join(rng.choice(TOPICS) for _ in range(rng.randint(1, 200)))
    body = json.dumps({"model": MODEL_NAME, "prompt": prompt, "max_tokens": 400, "stream": rng.random() < 0.7,
                       "ignore_eos": True}).encode()
    head = (f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode()
    message = head + body
    if rng.random() < 0.1:
        message = message[:rng.randint(1, len(message) - 1)]
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(message)
        connection.settimeout(rng.random() * 0.2)
        try:
            for _ in range(rng.randint(0, 4)):
                connection.recv(2000)
        except TimeoutError:
            pass
        if rng.random() < 0.5:  # half of them by reset, the other half by an orderly close
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def aborted_requests(server):
    pattern = r'^vllm:request_success_total\{[^}]*finished_reason="abort"[^}]*\} (\S+)$'
    return float(re.search(pattern, server.metrics(), re.MULTILINE).group(1))


def check_disconnects(server, count, seed):
    aborted_before = aborted_requests(server)
    generator = random.Random(seed)
    seeds = [generator.random() for _ in range(count)]
    with concurrent.futures.ThreadPoolExecutor(16) as executor:
        list(executor.map(lambda s: disconnect_once(server.port, random.Random(s)), seeds))
    assert server.wait_unused()["used"] == 0
    # A request that was still on its way into the engine would show now.
    for _ in range(10):
        time.sleep(0.1)
        snapshot = server.blocks()
        assert snapshot["used"] == 0
        assert snapshot["free"] + snapshot["cached"] == snapshot["total"]
    assert snapshot["requests"] == []
    # Most clients leave after their request has reached the engine; else nothing was tested.
    assert aborted_requests(server) - aborted_before > count / 4
    answer = server.client().completions.create(model=MODEL_NAME, prompt="Still here", max_tokens=4)
    assert answer.usage.completion_tokens > 0


def test_100_disconnects_leak_no_block(server):
    check_disconnects(server, 100, seed=2)


@pytest.mark.slow
def test_1000_disconnects_leak_no_block(server):
    check_disconnects(server, 1000, seed=3)
