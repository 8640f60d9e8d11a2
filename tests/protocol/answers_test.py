"""CASES sections B and C: shapes of answers, usage, server-sent events, logprobs and echo."""

import json
import unittest

from client import ProtocolTest

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"


def messages(content):
    return {"messages": [{"role": "user", "content": content}]}


class ShapeTest(ProtocolTest):
    def test_b014_finish_reason_in_every_chunk(self):
        for path, body in ((CHAT, messages("script:hello")), (COMPLETIONS, {"prompt": "script:hello"})):
            stream = self.server.stream(path, {**body, "n": 2})
            for event in stream.events:
                for choice in event["choices"]:
                    self.assertIn("finish_reason", choice)
                    self.assertIn("index", choice)
            for index in (0, 1):
                self.assertEqual(stream.finishes(index), ["stop"])
                self.assertEqual(stream.choices(index)[-1]["finish_reason"], "stop")
            self.assertTrue(stream.done)

    def test_b015_usage_chunk(self):
        for path, body in ((CHAT, messages("script:hello")), (COMPLETIONS, {"prompt": "script:hello"})):
            plain = self.server.stream(path, body)
            self.assertEqual([e for e in plain.events if not e["choices"]], [])
            self.assertFalse(any("usage" in e for e in plain.events))
            usage = self.server.stream(path, {**body, "stream_options": {"include_usage": True}})
            empty = [e for e in usage.events if not e["choices"]]
            self.assertEqual(len(empty), 1)
            self.assertIs(usage.events[-1], empty[0])
            self.assertTrue(all(e["usage"] is None for e in usage.events[:-1]))
            whole = self.server.post(path, body)[1]["usage"]
            for key in ("prompt_tokens", "completion_tokens", "total_tokens"):
                self.assertEqual(empty[0]["usage"][key], whole[key])
            running = self.server.stream(
                path, {**body, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
            )
            counts = [e["usage"]["completion_tokens"] for e in running.events]
            self.assertEqual(counts, sorted(counts))
            self.assertEqual(counts[-1], whole["completion_tokens"])

    def test_b017_counts(self):
        for max_tokens in (1, 20):
            status, body = self.server.complete("script:endless", max_tokens=max_tokens)
            self.assertEqual(body["choices"][0]["finish_reason"], "length")
            self.assertEqual(body["usage"]["completion_tokens"], max_tokens)
        body = self.server.complete("script:endless", max_tokens=7, n=3)[1]
        self.assertEqual(body["usage"]["completion_tokens"], 21)
        self.assertEqual(body["usage"]["prompt_tokens"], 1)
        self.assertEqual(body["usage"]["total_tokens"], 22)
        prompt = "p" * 100 + "script:endless"
        self.server.complete(prompt, max_tokens=1)
        again = self.server.complete(prompt, max_tokens=1)[1]["usage"]
        self.assertEqual(again["prompt_tokens"], 101)
        self.assertEqual(again["prompt_tokens_details"]["cached_tokens"], 96)
        salted = self.server.complete(prompt, max_tokens=1, cache_salt="other")[1]["usage"]
        self.assertEqual(salted["prompt_tokens_details"]["cached_tokens"], 0)

    def test_b018_framing(self):
        stream = self.server.stream(COMPLETIONS, {"prompt": "script:separators", "max_tokens": 50})
        self.assertEqual(stream.output(), "a\u2028b\r\ndata: x\n\n\"q\"\\\t")
        self.assertTrue(stream.headers["content-type"].startswith("text/event-stream"))
        self.assertEqual(stream.headers["cache-control"], "no-cache")
        self.assertNotIn("content-length", stream.headers)
        self.assertTrue(stream.text.endswith("data: [DONE]\n\n"))

    def test_b019_error_in_mid_stream(self):
        for script in ("fault", "throw"):
            for path, body in (
                (CHAT, messages("script:" + script)),
                (COMPLETIONS, {"prompt": "script:" + script}),
            ):
                stream = self.server.stream(path, body)
                self.assertEqual(stream.status, 200)
                self.assertFalse(stream.done)
                error = stream.events[-1]["error"]
                self.assertEqual(error["type"], "server_error")
                self.assertEqual(set(error), {"message", "type", "param", "code"})
                self.assertEqual(stream.finishes(), [])
                status, answer = self.server.post(path, body)
                self.assertEqual((status, answer["error"]["type"]), (500, "server_error"))
        self.assertTrue(self.server.wait_idle())

    def test_b020_error_before_the_first_token_is_a_status(self):
        for fields in (
            {"temperature": -1},
            {"max_tokens": 10**6},
            {"logprobs": 25},
            {"prompt": "x" * 5000},
            {"prompt": "script:faultfirst"},
            {"model": "nope"},
            {"n": 10**6},
        ):
            body = {"prompt": "hi", **fields}
            whole = self.server.request(COMPLETIONS, body)
            stream = self.server.request(COMPLETIONS, {**body, "stream": True})
            self.assertEqual(stream[0], whole[0])
            self.assertGreaterEqual(stream[0], 400)
            self.assertTrue(stream[1]["content-type"].startswith("application/json"))
            self.assertEqual(json.loads(stream[2]), json.loads(whole[2]))

    def test_b021_constants(self):
        stream = self.server.stream(CHAT, messages("script:hello"))
        for key in ("id", "created", "model", "object"):
            self.assertEqual(len({e[key] for e in stream.events}), 1)
        self.assertEqual(stream.events[0]["object"], "chat.completion.chunk")
        self.assertEqual(stream.events[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
        self.assertTrue(all("role" not in c["delta"] for c in stream.choices()[1:]))
        other = self.server.stream(CHAT, messages("script:hello"))
        self.assertNotEqual(other.events[0]["id"], stream.events[0]["id"])
        text = self.server.stream(
            COMPLETIONS, {"prompt": "script:hello", "model": "alias", "request_id": "mine"}
        )
        self.assertEqual(text.events[0]["object"], "text_completion")
        self.assertEqual({e["model"] for e in text.events}, {"alias"})
        self.assertEqual({e["id"] for e in text.events}, {"cmpl-mine"})

    def test_b023_prompts_times_n(self):
        body = self.server.complete(["P0", "P1"], n=2, echo=True, max_tokens=1)[1]
        self.assertEqual([c["index"] for c in body["choices"]], [0, 1, 2, 3])
        self.assertEqual([c["text"] for c in body["choices"]], ["P0x", "P0x", "P1x", "P1x"])
        self.assertEqual(body["usage"]["prompt_tokens"], 4)
        self.assertEqual(body["usage"]["completion_tokens"], 4)
        stream = self.server.stream(
            COMPLETIONS, {"prompt": ["P0", "P1"], "n": 2, "echo": True, "max_tokens": 1}
        )
        self.assertEqual([stream.output(i) for i in range(4)], ["P0x", "P0x", "P1x", "P1x"])
        ids = self.server.complete([[105, 106], [107]], max_tokens=2, echo=True)[1]
        self.assertEqual([c["text"] for c in ids["choices"]], ["abxx", "cxx"])
        self.assertEqual(len(self.server.complete(["a"], max_tokens=1)[1]["choices"]), 1)
        self.assert_error(self.server.complete(["a", [1]]), 400, "prompt")
        self.assert_error(self.server.complete(["a", "x" * 5000]), 400, code="context_length_exceeded")
        self.assertTrue(self.server.wait_idle())

    def test_return_token_ids(self):
        body = self.server.complete("script:78", return_token_ids=True)[1]["choices"][0]
        self.assertEqual(body["token_ids"], [8 + ord("7"), 8 + ord("8")])
        self.assertEqual(len(body["prompt_token_ids"]), 1)
        stream = self.server.stream(CHAT, {**messages("script:78"), "return_token_ids": True})
        self.assertEqual([i for c in stream.choices() for i in c.get("token_ids", [])], body["token_ids"])
        self.assertEqual(sum("prompt_token_ids" in e for e in stream.events), 1)


class LogprobsTest(ProtocolTest):
    def test_b024_chat_shape(self):
        body = {
            **messages("script:hello"),
            "logprobs": True,
            "top_logprobs": 2,
            "max_tokens": 3,
            "temperature": 0,
        }
        content = self.server.post(CHAT, body)[1]["choices"][0]["logprobs"]["content"]
        self.assertEqual([e["token"] for e in content], ["hello wor", "ld!"])
        for entry in content:
            self.assertLessEqual(entry["logprob"], 0)
            self.assertEqual(bytes(entry["bytes"]).decode(), entry["token"])
            self.assertEqual(len(entry["top_logprobs"]), 2)
            self.assertGreaterEqual(entry["top_logprobs"][0]["logprob"], entry["top_logprobs"][1]["logprob"])
        for top in ({}, {"top_logprobs": 0}):
            body = {**messages("script:hello"), "logprobs": True, **top}
            content = self.server.post(CHAT, body)[1]["choices"][0]["logprobs"]["content"]
            self.assertEqual([e["top_logprobs"] for e in content], [[], []])

    def test_b024_streamed_entries_are_complete(self):
        for stop in ([], ["ld!zz"], ["world"]):
            body = {**messages("script:hello"), "logprobs": True, "top_logprobs": 1, "stop": stop}
            whole = self.server.post(CHAT, body)[1]["choices"][0]["logprobs"]["content"]
            stream = self.server.stream(CHAT, body)
            entries = [e for c in stream.choices() if c["logprobs"] for e in c["logprobs"]["content"]]
            self.assertEqual(entries, whole)
            self.assertEqual(len(whole), 2)

    def test_b024_completions_shape(self):
        logprobs = self.server.complete("script:hello", logprobs=2)[1]["choices"][0]["logprobs"]
        self.assertEqual(logprobs["tokens"], ["hello wor", "ld!"])
        self.assertEqual(logprobs["text_offset"], [0, 9])
        self.assertEqual([len(t) for t in logprobs["top_logprobs"]], [2, 2])
        self.assertEqual(len(logprobs["token_logprobs"]), 2)
        alone = self.server.complete("script:hello", logprobs=0)[1]["choices"][0]["logprobs"]
        self.assertEqual([list(t) for t in alone["top_logprobs"]], [["hello wor"], ["ld!"]])
        stream = self.server.stream(COMPLETIONS, {"prompt": "script:hello", "logprobs": 2})
        parts = [c["logprobs"] for c in stream.choices() if c["logprobs"]]
        for key in logprobs:
            self.assertEqual([x for p in parts for x in p[key]], logprobs[key])

    def test_b025_bytes_of_partial_tokens(self):
        body = {**messages("script:emoji"), "logprobs": True}
        content = self.server.post(CHAT, body)[1]["choices"][0]["logprobs"]["content"]
        self.assertEqual(b"".join(bytes(e["bytes"]) for e in content).decode(), "a😀b")
        self.assertEqual([e["bytes"] for e in content[1:5]], [[240], [159], [152], [128]])

    def test_b026_keys_do_not_collide(self):
        logprobs = self.server.complete("script:collide", logprobs=2, max_tokens=1, temperature=0)[1][
            "choices"
        ][0]["logprobs"]
        self.assertEqual(set(logprobs["top_logprobs"][0]), {"bytes:\\x9f", "bytes:\\x98"})

    def test_b028_echo_with_logprobs(self):
        prompt = "The step of boiling water is: "
        for _ in range(2):  # B033: the second finds the prompt in the cache
            choice = self.server.complete(prompt, echo=True, logprobs=5, max_tokens=1)[1]["choices"][0]
            logprobs = choice["logprobs"]
            for key in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
                self.assertEqual(len(logprobs[key]), len(prompt) + 1)
            self.assertEqual("".join(logprobs["tokens"]), prompt + "x")
            self.assertIsNone(logprobs["token_logprobs"][0])
            self.assertIsNone(logprobs["top_logprobs"][0])
            self.assertTrue(all(v <= 0 for v in logprobs["token_logprobs"][1:]))
            self.assertEqual(logprobs["text_offset"], list(range(len(prompt) + 1)))

    def test_b029_max_tokens_zero(self):
        status, body = self.server.complete("Your answer: Yes", echo=True, logprobs=1, max_tokens=0)
        self.assertEqual(status, 200)
        choice = body["choices"][0]
        self.assertEqual(choice["text"], "Your answer: Yes")
        self.assertEqual(choice["finish_reason"], "length")
        self.assertEqual(body["usage"]["completion_tokens"], 0)
        self.assertEqual(len(choice["logprobs"]["tokens"]), 16)
        body = self.server.complete("Your answer: Yes", max_tokens=0)[1]
        self.assertEqual(body["choices"][0]["text"], "")
        self.assert_error(self.server.chat("hi", max_tokens=0), 400, "max_tokens")
        stream = self.server.stream(COMPLETIONS, {"prompt": "Yes", "echo": True, "max_tokens": 0})
        self.assertEqual(stream.output(), "Yes")
        self.assertEqual(stream.finishes(), ["length"])

    def test_b030_no_infinity(self):
        # All candidates but one are masked; the reader refuses NaN and Infinity.
        status, body = self.server.complete(
            "script:hello", allowed_token_ids=[100], logprobs=20, max_tokens=2, temperature=0
        )
        self.assertEqual(status, 200)
        self.assertEqual(body["choices"][0]["text"], "\\\\")

    def test_b031_limits(self):
        for value in (25, -1, 10**9):
            self.assert_error(self.server.complete("a", logprobs=value), 400, "logprobs")
        self.assertEqual(self.server.complete("a", logprobs=True, max_tokens=1)[0], 200)
        self.assert_error(self.server.chat("a", logprobs=True, top_logprobs=21), 400, "top_logprobs")
        self.assert_error(self.server.chat("a", logprobs=True, top_logprobs=2.5), 400, "top_logprobs")
        self.assert_error(self.server.chat("a", top_logprobs=2), 400, "top_logprobs")
        self.assert_error(self.server.complete("a", prompt_logprobs=-1), 400, "prompt_logprobs")

    def test_prompt_logprobs(self):
        entries = self.server.complete("abc", prompt_logprobs=2, max_tokens=1)[1]["choices"][0][
            "prompt_logprobs"
        ]
        self.assertIsNone(entries[0])
        self.assertEqual(len(entries), 3)
        self.assertIn(str(8 + ord("b")), entries[1])
        chat = self.server.chat("abc", prompt_logprobs=0, max_tokens=1)[1]
        self.assertEqual(len(chat["prompt_logprobs"]), chat["usage"]["prompt_tokens"])


if __name__ == "__main__":
    unittest.main()
