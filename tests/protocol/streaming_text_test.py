"""CASES section A: UTF-8, detokenisation and stop strings, streamed and not."""

import socket
import time
import unittest

from client import ProtocolTest


class Utf8Test(ProtocolTest):
    def both(self, script, **fields):
        """The choice and usage of the whole answer; checks that the stream says the same."""
        body = {"prompt": "script:" + script, "max_tokens": 100, **fields}
        status, whole = self.server.post("/v1/completions", body)
        self.assertEqual(status, 200, whole)
        stream = self.server.stream("/v1/completions", {**body, "stream_options": {"include_usage": True}})
        choice = whole["choices"][0]
        self.assertEqual(stream.output(), choice["text"])
        self.assertEqual(stream.finishes(), [choice["finish_reason"]])
        self.assertEqual(
            {**stream.usage()[-1], "prompt_tokens_details": None},
            {**whole["usage"], "prompt_tokens_details": None},
        )
        chat = self.server.chat("script:" + script, **{"max_tokens": 100, **fields})[1]
        self.assertEqual(chat["choices"][0]["message"]["content"], choice["text"])
        return choice, whole["usage"], stream

    def test_b001_characters_over_several_tokens(self):
        choice, usage, stream = self.both("emoji2")
        self.assertEqual(choice["text"], "a😀b")
        self.assertEqual(usage["completion_tokens"], 5)
        self.assertEqual(len(stream.deltas()), 3)
        self.assertNotIn("\ufffd", stream.text)
        for script, text in (
            ("emoji", "a😀b"),
            ("family", "x👨\u200d👩\u200d👧y"),
            ("scripts", "é नमस्ते 中文 🇩🇪\u2028!"),
        ):
            choice, _, stream = self.both(script)
            self.assertEqual(choice["text"], text)
            self.assertNotIn("\ufffd", stream.text)

    def test_b002_output_ends_inside_a_character(self):
        for max_tokens in (2, 3, 4):
            choice, usage, _ = self.both("emoji", max_tokens=max_tokens)
            self.assertEqual(choice["text"], "a\ufffd")
            self.assertEqual(choice["finish_reason"], "length")
            self.assertEqual(usage["completion_tokens"], max_tokens)
            self.assertEqual(self.server.complete("script:emoji", max_tokens=max_tokens, logprobs=2)[0], 200)
        self.assertEqual(self.both("emoji", max_tokens=5)[0]["text"], "a😀")

    def test_b004_invalid_bytes_do_not_eat_what_follows(self):
        for script, text in (
            ("halfeuro", "\ufffdA"),
            ("badff", "\ufffdh"),
            ("surrogate", "\ufffd" * 3),
            ("overlong", "\ufffd" * 2),
            ("toobig", "\ufffd" * 4),
        ):
            self.assertEqual(self.both(script)[0]["text"], text, script)

    def test_b005_stop_strings(self):
        table = [
            ("alphabet", ["DEFGHIJ"], {}, "", "stop"),
            ("nearmiss", ["DEFGHIJ"], {"max_tokens": 3}, "DEFGHX", "length"),
            ("overlap", ["aab"], {}, "a", "stop"),
            ("stop", ["top"], {}, "s", "stop"),
            ("blank", ["\n\n"], {}, "x", "stop"),
            ("xy", ["Y", "X"], {}, "abc", "stop"),
            ("abcd", ["d", "bcd"], {}, "a", "stop"),
            ("END", ["END"], {}, "", "stop"),
            ("DE", ["DEFGHIJ"], {"max_tokens": 1}, "DE", "length"),
            ("hello", ["world"], {"include_stop_str_in_output": True}, "hello world", "stop"),
            ("hello", ["zzz"], {}, "hello world!", "stop"),
        ]
        for script, stop, fields, text, finish in table:
            with self.subTest(script=script, stop=stop):
                choice, _, _ = self.both(script, stop=stop, **fields)
                self.assertEqual(choice["text"], text)
                self.assertEqual(choice["finish_reason"], finish)
        choice = self.both("xy", stop=["Y", "X"])[0]
        self.assertEqual(choice["stop_reason"], "X")
        self.assertIsNone(self.both("hello")[0]["stop_reason"])

    def test_tokens_behind_a_stop_do_not_count(self):
        _, usage, _ = self.both("overlap", stop="aab")
        self.assertEqual(usage["completion_tokens"], 4)
        self.assertTrue(self.server.wait_idle())

    def test_stop_strings_wait_for_min_tokens(self):
        choice, usage, _ = self.both("overlap", stop="a", min_tokens=2)
        self.assertEqual(choice["text"], "aa")
        self.assertEqual(usage["completion_tokens"], 3)

    def test_b006_nothing_is_held_back_longer_than_needed(self):
        connection = self.server.open_stream(
            "/v1/completions", {"prompt": "script:slowx", "max_tokens": 50, "stop": ["zzzzzzzzzz"]}
        )
        start, first, received = time.monotonic(), None, b""
        while b"[DONE]" not in received:
            received += connection.recv(65536)
            if first is None and b'"text":"x"' in received:
                first = time.monotonic() - start
        connection.close()
        # 50 steps of 50 ms: held back by the length of the stop string it would be 500 ms.
        self.assertLess(first, 0.4)
        self.assertGreaterEqual(received.count(b'"text":"x"'), 40)

    def test_b007_stop_at_the_first_token(self):
        choice, usage, stream = self.both("78", stop=["7"])
        self.assertEqual(choice["text"], "")
        self.assertEqual(choice["finish_reason"], "stop")
        self.assertEqual(usage["completion_tokens"], 1)
        chat = self.server.chat("script:78", stop=["7"])[1]
        self.assertEqual(chat["choices"][0]["message"]["content"], "")
        self.assertEqual(chat["usage"]["completion_tokens"], 1)
        chat = self.server.stream(
            "/v1/chat/completions", {"messages": [{"role": "user", "content": "script:78"}], "stop": ["7"]}
        )
        self.assertEqual(chat.finishes(), ["stop"])
        self.assertTrue(stream.done and chat.done)

    def test_b011_special_stop_tokens(self):
        self.assertEqual(self.both("special")[0]["text"], "abc")
        for skip in (True, False):
            choice, usage, _ = self.both("turnend", stop_token_ids=[4], skip_special_tokens=skip)
            self.assertEqual(choice["text"], "abc")
            self.assertEqual(choice["stop_reason"], 4)
            self.assertEqual(usage["completion_tokens"], 1)
        choice, usage, _ = self.both(
            "turnend", stop_token_ids=[4], skip_special_tokens=False, include_stop_str_in_output=True
        )
        self.assertEqual(choice["text"], "abc<|im_end|>")
        self.assertEqual(usage["completion_tokens"], 2)
        self.assertEqual(self.both("turnend")[0]["text"], "abczzz")
        self.assertEqual(self.both("special", ignore_eos=True, max_tokens=3)[0]["text"], "abczzz")

    def test_one_byte_reads(self):
        """CASES B018: whatever way TCP cuts the stream, it is the same."""
        connection = self.server.open_stream("/v1/completions", {"prompt": "script:emoji", "max_tokens": 10})
        received = b""
        while b"[DONE]" not in received:
            received += connection.recv(1)
        connection.shutdown(socket.SHUT_RDWR)
        connection.close()
        self.assertIn("😀".encode(), received)


if __name__ == "__main__":
    unittest.main()
