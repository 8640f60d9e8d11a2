"""CASES section D: requests that are wrong, odd or too large. Nothing is clamped, nothing ends the server."""

import json
import re
import time
import unittest

from client import ProtocolTest, Server

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
U = {"messages": [{"role": "user", "content": "hi"}]}
MAX_LEN = 512  # the scripted server's default


class ContextTest(ProtocolTest):
    def test_b034_prompt_length(self):
        for length in (MAX_LEN, MAX_LEN + 1, 10 * MAX_LEN, 1000 * MAX_LEN):
            for fields in ({}, {"stream": True}):
                error = self.assert_error(
                    self.server.complete("x" * length, **fields), 400, "prompt", "context_length_exceeded"
                )
                self.assertIn(f"This model's maximum context length is {MAX_LEN} tokens", error["message"])
                self.assertRegex(error["message"], r"your prompt contains (at least )?\d+ input tokens")
                self.assertEqual(error["type"], "invalid_request_error")
        error = self.assert_error(self.server.chat("x" * MAX_LEN), 400, "messages", "context_length_exceeded")
        self.assert_error(
            self.server.complete([[1] * (MAX_LEN + 5)]), 400, "prompt", "context_length_exceeded"
        )
        status, body = self.server.complete("x" * (MAX_LEN - 1))
        self.assertEqual((status, body["choices"][0]["finish_reason"]), (200, "length"))
        self.assertEqual(body["usage"]["completion_tokens"], 1)
        self.assertEqual(self.server.complete("x" * MAX_LEN, max_tokens=0)[0], 200)
        self.assert_error(
            self.server.complete("x" * (MAX_LEN + 1), max_tokens=0), 400, code="context_length_exceeded"
        )

    def test_b034_words(self):
        message = self.server.complete("x" * 500, max_tokens=100)[1]["error"]["message"]
        self.assertIn(
            "However, you requested 100 output tokens and your prompt contains 500 input tokens", message
        )
        self.assertIn("for a total of 600 tokens", message)

    def test_b035_max_tokens(self):
        self.assertEqual(self.server.complete("x" * 500, max_tokens=12)[1]["usage"]["completion_tokens"], 12)
        self.assert_error(self.server.complete("x" * 500, max_tokens=13), 400, code="context_length_exceeded")
        self.assertEqual(self.server.complete("hi")[1]["usage"]["completion_tokens"], 16)
        chat = self.server.chat("script:endless")[1]["usage"]
        self.assertEqual(chat["total_tokens"], MAX_LEN)
        self.assert_error(self.server.complete("hi", min_tokens=5, max_tokens=4), 400, "min_tokens")

    def test_truncation_only_on_request(self):
        body = self.server.complete("abc" * 400 + "script:hello", truncate_prompt_tokens=10, echo=True)[1]
        self.assertEqual(body["usage"]["prompt_tokens"], 10)
        self.assertEqual(body["choices"][0]["text"], "abcabcabcscript:hellohello world!")

    def test_b036_integers(self):
        for value in (
            -1,
            -2,
            0,
            1,
            2**31 - 1,
            2**31,
            2**32,
            2**63 - 1,
            2**63,
            10**18,
            1e18,
            100.0,
            1.5,
            "10",
            True,
            None,
            [],
        ):
            for path, body in ((COMPLETIONS, {"prompt": "hi"}), (CHAT, U)):
                self.assertIn(self.server.post(path, {**body, "max_tokens": value})[0], (200, 400), value)
        for value in (0, -1, 2**63 - 1, -(2**63), 2**63, 2**64, 10**30, 1.5, "1", None):
            status = self.server.complete("hi", seed=value, max_tokens=1)[0]
            fits = value is None or isinstance(value, int) and -(2**63) <= value < 2**63
            self.assertEqual(status, 200 if fits else 400, value)
        for value in (0, -1, 2**31):
            self.assert_error(self.server.complete("hi", n=value), 400, "n")

    def test_b037_empty_prompts(self):
        for prompt in ("", [""], [], [[]], ["a", ""], None):
            self.assert_error(self.server.complete(prompt), 400, "prompt")
        self.assert_error(self.server.post(COMPLETIONS, {}), 400, "prompt")


class BosTest(ProtocolTest):
    flags = {"add_bos": 1}

    def test_b037_bos_makes_a_prompt(self):
        self.assertEqual(self.server.complete("", max_tokens=1)[0], 200)
        self.assert_error(self.server.complete("", add_special_tokens=False), 400, "prompt")
        tokens = self.server.post("/tokenize", {"prompt": "a"})[1]["tokens"]
        self.assertEqual(tokens, [1, 8 + ord("a")])


class RequestTest(ProtocolTest):
    def test_b038_messages(self):
        bad = [
            None,
            "x",
            [],
            [123],
            [{}],
            [{"role": 123}],
            [{"content": "x"}],
            [{"role": "user", "content": 123}],
            [{"role": "user", "content": {}}],
            [{"role": "user", "content": []}],
            [{"role": "user", "content": [{"type": "text"}]}],
            [{"role": "user", "content": [{"type": "zzz"}]}],
        ]
        for messages in bad:
            self.assert_error(self.server.post(CHAT, {"messages": messages}), 400)
        self.assert_error(self.server.post(CHAT, {}), 400, "messages")

    def test_b039_parts(self):
        def render(content):
            messages = [{"role": "user", "content": content}]
            return self.server.post("/apply-template", {"messages": messages})[1]["prompt"]

        self.assertEqual(render("hi"), "<|im_start|>user\nhi<|im_end|>\n<|assistant|>")
        self.assertEqual(render([{"type": "text", "text": "hi"}]), render("hi"))
        self.assertEqual(
            render([{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]), render("A\nB")
        )

    def test_b040_null_content(self):
        calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
        prompts = set()
        for assistant in ({"content": None}, {}, {"content": ""}):
            history = [
                {"role": "user", "content": "a"},
                {"role": "assistant", **assistant, "tool_calls": calls},
                {"role": "tool", "content": "4", "tool_call_id": "c"},
            ]
            prompts.add(self.server.post("/apply-template", {"messages": history})[1]["prompt"])
        self.assertEqual(len(prompts), 1)
        self.assertNotIn("None", prompts.pop())

    def test_b042_template_errors(self):
        error = self.assert_error(
            self.server.post(CHAT, {"messages": [{"role": "reject", "content": "x"}]}), 400
        )
        self.assertIn("roles must alternate", error["message"])

    def test_b043_bounds_never_clamp(self):
        table = {
            "temperature": (-0.1, 2.1, "1"),
            "top_p": (-0.1, 1.1, 0),
            "top_k": (-2, 1.5),
            "min_p": (-0.1, 1.1),
            "presence_penalty": (2.1, -2.1),
            "frequency_penalty": (2.1, -2.1),
            "repetition_penalty": (0, -1),
        }
        for field, values in table.items():
            for value in values:
                self.assert_error(self.server.complete("hi", **{field: value}), 400, field)
                self.assert_error(self.server.chat("hi", **{field: value}), 400, field)

    def test_b045_logit_bias(self):
        for bias in (
            {"-1": 1},
            {"999999999": 5},
            {"4294967301": 5},
            {"abc": 1},
            {"1.5": 1},
            {"5": 101},
            {"5": "x"},
            {"5": None},
        ):
            self.assert_error(self.server.complete("hi", logit_bias=bias), 400, "logit_bias")
        start = time.monotonic()
        self.assert_error(
            self.server.complete("hi", logit_bias={str(i): 1 for i in range(100000)}), 400, "logit_bias"
        )
        self.assertLess(time.monotonic() - start, 5)
        x, q = 8 + ord("x"), 8 + ord("q")
        biased = self.server.complete("hi", temperature=0, max_tokens=3, logit_bias={str(q): 100})[1]
        self.assertEqual(biased["choices"][0]["text"], "qqq")
        self.assertNotIn(
            "x",
            self.server.complete("hi", temperature=0, max_tokens=3, logit_bias={str(x): -100})[1]["choices"][
                0
            ]["text"],
        )

    def test_bad_words(self):
        self.assertNotIn(
            "x", self.server.complete("hi", temperature=0, bad_words=["x"])[1]["choices"][0]["text"]
        )

    def test_b046_token_ids(self):
        for prompt in ([-1], [[-1]], [10**6], [2**31], [2**32 + 5], [2**63], [1.5], [1, "a"], [True], [None]):
            self.assert_error(self.server.complete(prompt), 400, "prompt")
            flat = prompt[0] if isinstance(prompt[0], list) else prompt
            self.assert_error(self.server.post("/detokenize", {"tokens": flat}), 400, "tokens")

    def test_b048_fan_out(self):
        start = time.monotonic()
        self.assert_error(self.server.complete("x", n=10**6), 400, "n")
        self.assert_error(self.server.complete(["x"] * 100000), 400, "prompt")
        self.assert_error(self.server.complete("x", best_of=10**6), 400, "best_of")
        self.assert_error(self.server.complete("x", stop=["x"] * 100000), 400, "stop")
        self.assert_error(self.server.chat("x", tools=[{"type": "function"}] * 10000), 400, "tools")
        self.assertLess(time.monotonic() - start, 3)

    def test_b050_not_utf8(self):
        for body in (
            b'{"prompt":"\xff\xfe"}',
            b'{"prompt":"\xed\xa0\x80"}',
            '{"prompt":"a"}'.encode("utf-16"),
            b'\xef\xbb\xbf{"prompt":"a"}',
            b'{"prompt":"a"}\0',
            b"\xff",
        ):
            self.assert_error(self.server.post(COMPLETIONS, body), 400)
        self.assertIn(
            "at byte 11", self.server.post(COMPLETIONS, b'{"prompt":"\xff"}')[1]["error"]["message"]
        )

    def test_b052_depth(self):
        for depth in (1000, 10**5, 10**6):
            nested = "[" * depth + "]" * depth
            for field in ("x", "tools", "metadata", "response_format", "messages"):
                self.assert_error(self.server.post(CHAT, f'{{"{field}":{nested}}}'.encode()), 400)

    def test_b053_oddities(self):
        for text in ("NaN", "Infinity", "-Infinity", "1e999", "01", "+1", ".5", "1,", "1 /* c */", "'a'"):
            self.assert_error(
                self.server.post(COMPLETIONS, f'{{"prompt":"hi","temperature":{text}}}'.encode()), 400
            )
        for body in (
            b"",
            b"[]",
            b'"x"',
            b'{"prompt":"a"}{"prompt":"b"}',
            b'{"prompt":"a","max_tokens":1,"max_tokens":500}',
        ):
            self.assert_error(self.server.post(COMPLETIONS, body, method="POST"), 400)
        nulls = {
            key: None
            for key in (
                "temperature",
                "top_p",
                "n",
                "stop",
                "stream",
                "logprobs",
                "seed",
                "user",
                "tools",
                "tool_choice",
                "response_format",
                "logit_bias",
                "stream_options",
            )
        }
        self.assertEqual(self.server.complete("hi", max_tokens=1, **nulls)[0], 200)
        self.assertEqual(self.server.chat("hi", max_tokens=1, **nulls)[0], 200)

    def test_b055_b056_routes(self):
        self.assert_error(self.server.post("/nope", {}), 404, code="not_found")
        self.assert_error(self.server.complete("a", model="nope"), 404, "model", "model_not_found")
        status, headers, body = self.server.request(COMPLETIONS)
        self.assertEqual(status, 405)
        self.assertIn("POST", headers["allow"])
        self.assertIn("message", json.loads(body)["error"])
        self.assertIn("x-request-id", headers)
        status, _, _ = self.server.request(
            COMPLETIONS, b'{"prompt":"a","max_tokens":1}', headers={"Content-Type": "text/plain"}
        )
        self.assertEqual(status, 200)
        status, _, body = self.server.request(COMPLETIONS, b"\x1f\x8b", headers={"Content-Encoding": "gzip"})
        self.assertEqual(status, 415)
        self.assertIn("message", json.loads(body)["error"])

    def test_unknown_fields(self):
        status, headers, _ = self.server.request(
            COMPLETIONS, {"prompt": "a", "max_tokens": 1, "foo": 1, "b\r\nX-Evil: 1": 2}
        )
        self.assertEqual(status, 200)
        self.assertIn("foo", headers["warning"])
        self.assertNotIn("x-evil", headers)
        self.assertNotIn(
            "warning", self.server.request(COMPLETIONS, {"prompt": "a", "max_tokens": 1, "user": "u"})[1]
        )

    def test_features_that_are_not_there(self):
        self.assert_error(self.server.chat("a", use_beam_search=True), 501, "use_beam_search")
        self.assert_error(self.server.chat("a", use_beam_search="yes"), 400, "use_beam_search")
        self.assert_error(self.server.complete("a", suffix="b"), 501, "suffix")
        self.assertEqual(
            self.server.chat("a", max_tokens=1, tools=[], response_format={"type": "text"})[0], 200
        )

    def test_b074_b075_template_arguments(self):
        self.assert_error(self.server.chat("a", chat_template="{{ 1 }}"), 400, "chat_template")
        for name in ("messages", "chat_template", "tools", "add_generation_prompt", "bos_token"):
            self.assert_error(
                self.server.chat("a", chat_template_kwargs={name: []}), 400, "chat_template_kwargs"
            )

    def test_continue_final_message(self):
        history = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "The answer "}]
        body = {"messages": history, "continue_final_message": True, "add_generation_prompt": False}
        self.assertEqual(
            self.server.post("/apply-template", body)[1]["prompt"],
            "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nThe answer ",
        )
        tokens = self.server.post("/tokenize", body)[1]["tokens"]
        self.assertEqual(tokens[-11:], [8 + b for b in b"The answer "])
        self.assertEqual(
            self.server.post(CHAT, {**body, "max_tokens": 2})[1]["choices"][0]["message"]["content"], "xx"
        )
        self.assert_error(
            self.server.post(CHAT, {**body, "add_generation_prompt": True}), 400, "continue_final_message"
        )


class StrictTest(ProtocolTest):
    flags = {"strict_params": 1}

    def test_unknown_field_is_an_error(self):
        self.assert_error(self.server.complete("a", foo=1), 400, "foo")
        self.assertEqual(self.server.complete("a", max_tokens=1)[0], 200)


class TextRoutesTest(ProtocolTest):
    def test_tokenize_and_back(self):
        text = "héllo<|im_end|>"
        answer = self.server.post("/tokenize", {"prompt": text, "return_token_strs": True})[1]
        self.assertEqual(answer["count"], len(answer["tokens"]))
        self.assertEqual(answer["max_model_len"], MAX_LEN)
        self.assertEqual(answer["token_strs"][-1], "<|im_end|>")
        self.assertEqual(self.server.post("/detokenize", {"tokens": answer["tokens"]})[1]["prompt"], text)
        plain = self.server.post("/tokenize", {"prompt": text, "parse_special": False})[1]
        self.assertGreater(plain["count"], answer["count"])
        chat = self.server.post("/tokenize", U)[1]
        usage = self.server.chat("hi", max_tokens=1)[1]["usage"]
        self.assertEqual(chat["count"], usage["prompt_tokens"])

    def test_b086_long_text(self):
        for text in ("A" * 10**6, " " * 10**5, "中" * 10**5):
            start = time.monotonic()
            self.assertEqual(self.server.post("/tokenize", {"prompt": text})[1]["count"], len(text.encode()))
            self.assert_error(self.server.complete(text), 400, code="context_length_exceeded")
            self.assert_error(self.server.chat(text), 400, code="context_length_exceeded")
            self.assertLess(time.monotonic() - start, 20)

    def test_models_and_the_like(self):
        status, models = self.server.get("/v1/models")
        self.assertEqual([m["id"] for m in models["data"]], ["scripted", "alias"])
        self.assertEqual(self.server.get("/v1/models/alias")[1]["max_model_len"], MAX_LEN)
        self.assertEqual(self.server.get("/v1/models/nope")[0], 404)
        self.assertEqual(self.server.get("/version")[1]["version"], "0.0.0-scripted")
        for path in ("/health", "/health/live", "/health/ready"):
            self.assertEqual(self.server.get(path)[0], 200)
        blocks = self.server.get("/debug/blocks")[1]
        self.assertEqual(blocks["total"], blocks["used"] + blocks["free"] + blocks["cached"])
        self.assertEqual(blocks["block_size"], 16)

    def samples(self):
        """Value by series name and, where there is one, finished_reason."""
        status, headers, body = self.server.request("/metrics")
        self.assertEqual(status, 200)
        self.assertTrue(headers["content-type"].startswith("text/plain"))
        values = {}
        for name, labels, value in re.findall(r"^(vllm:\w+)\{(.*)\} (\S+)$", body.decode(), re.MULTILINE):
            self.assertIn('model_name="scripted"', labels)
            reason = re.search(r'finished_reason="(\w+)"', labels)
            values[name, reason.group(1) if reason else None] = float(value)
        return values

    def test_metrics(self):
        self.assertTrue(self.server.wait_idle())
        before = self.samples()
        self.server.complete("hi", max_tokens=5)
        # The answer may arrive before the engine has written down the end of the step.
        expected = {
            ("vllm:prompt_tokens_total", None): 2,
            ("vllm:generation_tokens_total", None): 5,
            ("vllm:request_success_total", "length"): 1,
            ("vllm:request_success_total", "stop"): 0,
            ("vllm:time_to_first_token_seconds_count", None): 1,
            ("vllm:e2e_request_latency_seconds_count", None): 1,
            ("vllm:num_requests_running", None): 0,
        }
        end = time.monotonic() + 5
        gained = None
        while gained != expected and time.monotonic() < end:
            after = self.samples()
            gained = {key: after[key] - before[key] for key in expected}
            time.sleep(0.01)
        self.assertEqual(gained, expected)


class LoadingTest(unittest.TestCase):
    def test_everything_is_503_while_loading(self):
        server = Server(stay_loading=1)
        try:
            for path in ("/health", "/health/ready", "/v1/models", "/debug/blocks"):
                status, body = server.get(path)
                self.assertEqual((status, body["error"]["code"]), (503, "loading"), path)
            status, headers, body = server.request(COMPLETIONS, {"prompt": "a"})
            self.assertEqual((status, json.loads(body)["error"]["code"]), (503, "loading"))
            self.assertIn("retry-after", headers)
            for path in ("/health/live", "/version", "/metrics"):
                self.assertEqual(server.request(path)[0], 200)
        finally:
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
