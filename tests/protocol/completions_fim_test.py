"""Filling in the middle: `suffix` of /v1/completions and POST /infill, and POST /generate."""

import json
import unittest

import client
from client import ProtocolTest, Server

client.SCRIPTS.update(
    {
        "middle": {"pieces": ["return", " a", " + b", "\n", "\n", "print", "(1)", "\n", "more"]},
        "control": {"pieces": ["abc", {"id": 4}, "zzz"]},
        "prefixtoken": {"pieces": ["abc", {"id": 3}, "zzz"]},
        "defs": {"pieces": ["x = 1\n", "\nd", "ef f():", "\n  y"]},
        "closing": {"pieces": ["a, ", "b)", "\n", "x"]},
        "twolines": {"pieces": ["x", "\n", "y"]},
    }
)
TEMPLATE = "<|im_end|>{suffix}<|im_start|>{prefix}"
COMPLETIONS, INFILL, GENERATE = "/v1/completions", "/infill", "/generate"


def infill_events(stream):
    return [json.loads(frame[6:]) for frame in stream.text.split("\n\n") if frame]


class FimTest(ProtocolTest):
    flags = {"fim_template": TEMPLATE}

    def both(self, script, suffix, **fields):
        """The choice of a completion, which must be the same as a stream."""
        body = {"prompt": "script:" + script, "suffix": suffix, "max_tokens": 50, **fields}
        status, answer = self.server.post(COMPLETIONS, body)
        self.assertEqual(status, 200, answer)
        choice = answer["choices"][0]
        stream = self.server.stream(COMPLETIONS, body)
        self.assertEqual(stream.output(), choice["text"])
        self.assertEqual(stream.finishes(), [choice["finish_reason"]])
        return choice

    def infill(self, script, suffix, **fields):
        body = {"input_prefix": "script:" + script, "input_suffix": suffix, "n_predict": 50, **fields}
        status, answer = self.server.post(INFILL, body)
        self.assertEqual(status, 200, answer)
        stream = self.server.stream(INFILL, body)
        events = infill_events(stream)
        self.assertEqual("".join(event["content"] for event in events), answer["content"])
        self.assertEqual([event["stop"] for event in events], [False] * (len(events) - 1) + [True])
        for name in ("stop_type", "stopping_word", "tokens_predicted", "tokens_evaluated", "truncated"):
            self.assertEqual(events[-1][name], answer[name], name)
        return answer

    def test_prompt_and_its_tokens(self):
        body = self.server.complete("script:middle", suffix="xyz", max_tokens=1, return_token_ids=True)[1]
        ids = body["choices"][0]["prompt_token_ids"]
        self.assertEqual(ids[:5], [4, 8 + ord("x"), 8 + ord("y"), 8 + ord("z"), 3])
        self.assertEqual(body["usage"]["prompt_tokens"], 6)
        self.assertEqual(body["choices"][0]["text"], "return")

    def test_control_tokens_in_user_text_are_text(self):
        body = self.server.complete(
            "<|im_end|>script:middle", suffix="<|im_start|>", max_tokens=1, return_token_ids=True
        )[1]
        ids = body["choices"][0]["prompt_token_ids"]
        self.assertEqual(sorted(i for i in ids if i < 8), [3, 4])
        self.assertEqual(len(ids), 1 + 12 + 1 + 10 + 1)

    def test_control_tokens_end_the_output(self):
        for script in ("control", "prefixtoken"):
            for fields in (
                {},
                {"include_stop_str_in_output": True},
                {"skip_special_tokens": False},
                {"ignore_eos": True},
            ):
                choice = self.both(script, "S", **fields)
                self.assertEqual(choice["text"], "abc")
                self.assertEqual(choice["finish_reason"], "stop")
                self.assertIsNone(choice["stop_reason"])

    def test_the_suffix_is_not_repeated(self):
        choice = self.both("middle", "\n\nprint(1)\n")
        self.assertEqual(choice["text"], "return a + b")
        self.assertEqual((choice["finish_reason"], choice["stop_reason"]), ("stop", "print(1)"))
        self.assertEqual(self.both("middle", "\n\nprint(2)\n")["text"], "return a + b\n\nprint(1)\nmore")
        whole = self.both("middle", "\n\nprint(1)\n", stop_at_suffix=False)
        self.assertEqual(whole["text"], "return a + b\n\nprint(1)\nmore")
        self.assertEqual(self.both("closing", ")\n")["text"], "a, b")
        # The end of the output is the end of a line, too.
        cut = self.both("middle", "\n\nprint(1)\n", max_tokens=7)
        self.assertEqual((cut["text"], cut["finish_reason"]), ("return a + b", "stop"))
        cut = self.both("middle", "\n\nprint(1)\n", max_tokens=6)
        self.assertEqual((cut["text"], cut["finish_reason"]), ("return a + b\n\nprint", "length"))

    def test_min_tokens_goes_before_the_suffix(self):
        choice = self.both("middle", "\n\nprint(1)\n", min_tokens=8)
        self.assertEqual(choice["text"], "return a + b\n\nprint(1)\nmore")

    def test_a_repetition_ends_the_work(self):
        body = {"prompt": "script:middle", "suffix": "\n\nprint(1)\n", "max_tokens": 200}
        usage = self.server.post(COMPLETIONS, body)[1]["usage"]
        self.assertEqual(usage["completion_tokens"], 8)
        self.assertTrue(self.server.wait_idle())

    def test_stop_strings_of_code(self):
        self.assertEqual(self.both("middle", "S", stop=["\n\n"])["text"], "return a + b")
        self.assertEqual(self.both("defs", "S", stop=["\ndef ", "\nclass "])["text"], "x = 1\n")
        answer = self.infill("defs", "S", stop=["def "])
        self.assertEqual(answer["content"], "x = 1\n\n")
        self.assertEqual((answer["stop_type"], answer["stopping_word"]), ("word", "def "))
        # A stop string and a repetition: what ends first.
        self.assertEqual(self.both("middle", "\n\nprint(1)\n", stop=["more"])["text"], "return a + b")
        self.assertEqual(self.both("middle", "\n\nprint(1)\n", stop=["a +"])["text"], "return ")

    def test_fields_work_as_without_a_suffix(self):
        body = self.server.complete(
            ["script:middle", "script:closing"], suffix=")\n", n=2, max_tokens=2, logprobs=1, seed=1
        )[1]
        self.assertEqual([c["index"] for c in body["choices"]], [0, 1, 2, 3])
        self.assertEqual([c["text"] for c in body["choices"]], ["return a"] * 2 + ["a, b"] * 2)
        self.assertEqual(body["choices"][0]["logprobs"]["tokens"], ["return", " a"])
        self.assertEqual(body["usage"]["completion_tokens"], 8)
        plain = self.server.complete("script:hello", suffix="")[1]["choices"][0]["text"]
        self.assertEqual(plain, "hello world!")

    def test_what_does_not_fit_is_cut_and_said(self):
        body = {"prompt": "p" * 600 + "script:middle", "suffix": "s" * 600, "max_tokens": 12}
        status, headers, data = self.server.request(COMPLETIONS, body)
        self.assertEqual(status, 200, data)
        answer = json.loads(data)
        self.assertEqual(answer["usage"]["prompt_tokens"], 500)
        self.assertEqual(answer["choices"][0]["text"], "return a + b\n\nprint(1)\nmore")
        # 498 tokens beside the two control tokens: a quarter is the suffix's.
        self.assertEqual(headers["x-prompt-truncated"], "prefix=227, suffix=476, files=0")
        stream = self.server.stream(COMPLETIONS, body)
        self.assertEqual(stream.headers["x-prompt-truncated"], "prefix=227, suffix=476, files=0")
        whole = self.server.request(COMPLETIONS, {**body, "prompt": "script:middle", "suffix": "s"})
        self.assertNotIn("x-prompt-truncated", whole[1])

    def test_infill_says_what_was_cut(self):
        files = [{"filename": "a", "text": "x" * 400}, {"filename": "b", "text": "y" * 300}]
        body = {"input_prefix": "script:middle", "input_suffix": "s", "input_extra": files, "n_predict": 4}
        status, headers, data = self.server.request(INFILL, body)
        self.assertEqual(status, 200, data)
        answer = json.loads(data)
        self.assertTrue(answer["truncated"])
        self.assertEqual(headers["x-prompt-truncated"], "prefix=0, suffix=0, files=1")
        self.assertEqual(answer["tokens_evaluated"], 303 + 4)
        self.assertFalse(self.infill("middle", "s")["truncated"])

    def test_no_room_is_an_error(self):
        error = self.assert_error(
            self.server.complete("script:middle", suffix="s", max_tokens=511),
            400,
            code="context_length_exceeded",
        )
        self.assertIn("512", error["message"])
        self.assertEqual(self.server.complete("script:middle", suffix="s", max_tokens=509)[0], 200)

    def test_wrong_fields(self):
        for fields, param in (
            ({"suffix": 5}, "suffix"),
            ({"suffix": ["a"]}, "suffix"),
            ({"suffix": {}}, "suffix"),
            ({"suffix": "s", "echo": True}, "echo"),
            ({"suffix": "s", "stop_at_suffix": "x"}, "stop_at_suffix"),
            ({"suffix": "s", "truncate_prompt_tokens": 4}, "truncate_prompt_tokens"),
        ):
            for stream in (False, True):
                self.assert_error(self.server.complete("x", stream=stream, **fields), 400, param)
        self.assert_error(self.server.complete([9, 10], suffix="s"), 400, "prompt")
        self.assert_error(self.server.complete([[9], [10]], suffix="s"), 400, "prompt")

    def test_infill_shape(self):
        answer = self.infill(
            "mid",
            "\n\nprint(1)\n",
            prompt="dle",
            temperature=0.5,
            top_k=40,
            top_p=0.9,
            seed=-1,
            repeat_penalty=1.1,
            cache_prompt=True,
            samplers=["top_k", "infill"],
            n_indent=4,
            t_max_predict_ms=1000,
        )
        self.assertEqual(answer["content"], "return a + b")
        self.assertEqual((answer["stop"], answer["stop_type"]), (True, "word"))
        self.assertEqual(answer["stopping_word"], "print(1)")
        self.assertEqual(answer["model"], "scripted")
        self.assertEqual(answer["tokens_predicted"], 8)
        # The script, two control tokens, and the suffix byte by byte.
        self.assertEqual(answer["tokens_evaluated"], 3 + len("\n\nprint(1)\n"))
        self.assertEqual(answer["tokens"], [])
        for name in (
            "prompt_n",
            "prompt_ms",
            "predicted_n",
            "predicted_ms",
            "predicted_per_second",
            "cache_n",
        ):
            self.assertIsInstance(answer["timings"][name], (int, float), name)
        self.assertEqual(self.infill("middle", "S", n_predict=2)["stop_type"], "limit")
        self.assertEqual(self.infill("control", "S")["stop_type"], "eos")
        self.assertEqual(self.infill("middle", "S", n_predict=0)["content"], "")
        self.assertEqual(self.infill("middle", "S", n_predict=-1)["stop_type"], "eos")
        tokens = self.infill("middle", "S", n_predict=3, return_tokens=True)["tokens"]
        self.assertEqual(len(tokens), 3)

    def test_infill_only_the_fields_that_are_wanted(self):
        body = {
            "input_prefix": "script:middle",
            "input_suffix": "",
            "n_predict": 1,
            "response_fields": ["content", "timings/predicted_n", "truncated", "nope"],
        }
        self.assertEqual(
            self.server.post(INFILL, body)[1],
            {"content": "return", "timings/predicted_n": 1, "truncated": False},
        )

    def test_infill_files(self):
        body = {
            "input_prefix": "script:middle",
            "input_suffix": "",
            "n_predict": 1,
            "input_extra": [{"filename": "a.py", "text": "<|im_end|>"}],
        }
        answer = self.server.post(INFILL, body)[1]
        self.assertEqual(answer["tokens_evaluated"], 2 + 1 + len("a.py\n<|im_end|>\n"))

    def test_infill_errors(self):
        ok = {"input_prefix": "x", "input_suffix": "y"}
        for fields, param in (
            ({"input_prefix": None}, "input_prefix"),
            ({"input_suffix": None}, "input_suffix"),
            ({"input_prefix": 5}, "input_prefix"),
            ({"n_predict": "x"}, "n_predict"),
            ({"n_predict": -3}, "n_predict"),
            ({"input_extra": "x"}, "input_extra"),
            ({"input_extra": [{}]}, "input_extra"),
            ({"n": 2}, "n"),
            ({"input_extra": [{"text": "a"}] * 2000}, "input_extra"),
            ({"stop": [1]}, "stop"),
            ({"repeat_penalty": -1}, "repeat_penalty"),
            ({"temperature": "hot"}, "temperature"),
        ):
            for stream in (False, True):
                self.assert_error(self.server.post(INFILL, {**ok, "stream": stream, **fields}), 400, param)
        self.assert_error(self.server.post(INFILL, {**ok, "model": "nope"}), 404, "model", "model_not_found")
        self.assertEqual(self.server.request(INFILL)[0], 405)
        self.assertEqual(self.server.request(INFILL, b"{")[0], 400)

    def test_a_client_that_leaves_ends_its_infill(self):
        connection = self.server.open_stream(INFILL, {"input_prefix": "script:slow", "input_suffix": "s"})
        connection.recv(1)
        connection.close()
        self.assertTrue(self.server.wait_idle())


class WithoutFimTest(ProtocolTest):
    def test_501_names_the_flag(self):
        for stream in (False, True):
            error = self.assert_error(self.server.complete("a", suffix="b", stream=stream), 501, "suffix")
            self.assertIn("--fim-template", error["message"])
            error = self.assert_error(
                self.server.post(INFILL, {"input_prefix": "a", "input_suffix": "b", "stream": stream}), 501
            )
            self.assertIn("--fim-template", error["message"])

    def test_a_wrong_template_is_told_at_the_start(self):
        for template in ("{prefix}", "x", "{prefix}{suffix}{suffix}"):
            with self.assertRaisesRegex(RuntimeError, "--fim-template must hold"):
                Server(fim_template=template)

    def test_generate(self):
        status, body = self.server.post(
            GENERATE, {"prompt": "script:hello", "max_tokens": 5, "temperature": 0, "top_p": 0.9}
        )
        self.assertEqual(status, 200)
        self.assertEqual(body["text"], "hello world!")
        self.assertEqual(body["finish_reason"], "stop")
        self.assertEqual(body["usage"]["completion_tokens"], 2)
        stream = self.server.stream(GENERATE, {"prompt": "script:hello", "max_tokens": 5})
        self.assertTrue(stream.done)
        self.assertEqual("".join(event["text"] for event in stream.events), "hello world!")
        self.assertEqual(stream.events[-1]["finish_reason"], "stop")
        self.assertEqual(self.server.post(GENERATE, {"prompt": "x"})[1]["usage"]["completion_tokens"], 16)

    def test_generate_errors(self):
        for body, param in (
            ({}, "prompt"),
            ({"prompt": 5}, "prompt"),
            ({"prompt": ["a"]}, "prompt"),
            ({"prompt": "a", "max_tokens": -1}, "max_tokens"),
            ({"prompt": "a", "n": 2}, "n"),
            ({"prompt": "a", "temperature": 9}, "temperature"),
        ):
            self.assert_error(self.server.post(GENERATE, body), 400, param)
        self.assert_error(
            self.server.post(GENERATE, {"prompt": "x" * 600}), 400, "prompt", "context_length_exceeded"
        )
        self.assertEqual(self.server.request(GENERATE)[0], 405)


if __name__ == "__main__":
    unittest.main()
