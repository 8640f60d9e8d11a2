"""POST /v1/messages and /v1/messages/count_tokens: shapes, events, limits, errors."""

import json
import unittest

from client import ProtocolTest
from events import EventStream

PATH = "/v1/messages"
COUNT = "/v1/messages/count_tokens"


def body(content, **fields):
    return {"max_tokens": 100, "messages": [{"role": "user", "content": content}], **fields}


def replay(stream):
    """The message that a client builds from the events."""
    message = stream.events[0]["message"]
    for event in stream.events[1:]:
        if event["type"] == "content_block_start":
            assert event["index"] == len(message["content"])
            message["content"].append(event["content_block"])
        elif event["type"] == "content_block_delta":
            assert event["index"] == len(message["content"]) - 1
            assert event["delta"]["type"] == "text_delta"
            message["content"][-1]["text"] += event["delta"]["text"]
        elif event["type"] == "message_delta":
            message.update(event["delta"])
            message["usage"].update(event["usage"])
    return message


class MessagesTest(ProtocolTest):
    def both(self, content, **fields):
        """The whole answer; checks that the stream says the same, in the right order."""
        request = body(content, **fields)
        status, whole = self.server.post(PATH, request)
        self.assertEqual(status, 200, whole)
        stream = EventStream(self.server, PATH, request)
        streamed = replay(stream)
        self.assertEqual(
            {**streamed, "id": 0, "usage": self.sums(streamed)}, {**whole, "id": 0, "usage": self.sums(whole)}
        )
        names = stream.names()
        blocks = []
        if whole["content"]:
            deltas = names.count("content_block_delta")
            blocks = (
                ["content_block_start"] + ["content_block_delta"] * deltas + ["content_block_stop"]
            )
        self.assertEqual(names, ["message_start", "ping"] + blocks + ["message_delta", "message_stop"])
        return whole, stream

    @staticmethod
    def sums(message):
        usage = message["usage"]
        return usage["input_tokens"] + usage["cache_read_input_tokens"], usage["output_tokens"]

    @staticmethod
    def text(message):
        return "".join(block["text"] for block in message["content"])

    def assert_messages_error(self, answer, status, kind):
        self.assertEqual(answer[0], status, answer[1])
        self.assertEqual(answer[1]["type"], "error")
        error = answer[1]["error"]
        self.assertEqual(error["type"], kind)
        self.assertTrue(error["message"])
        return error

    def test_shape(self):
        whole, _ = self.both("script:hello")
        self.assertEqual(set(whole), {
            "id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"})
        self.assertEqual((whole["type"], whole["role"]), ("message", "assistant"))
        self.assertEqual(whole["content"], [{"type": "text", "text": "hello world!"}])
        self.assertEqual((whole["stop_reason"], whole["stop_sequence"]), ("end_turn", None))
        self.assertTrue(whole["id"].startswith("msg_"))

    def test_headers(self):
        for fields in ({}, {"stream": True}, {"temperature": 7}):
            _, headers, _ = self.server.request(
                PATH,
                body("script:hello", **fields),
                headers={"X-Request-Id": "abc", "anthropic-version": "2023-06-01", "x-api-key": "k"},
            )
            self.assertEqual((headers["request-id"], headers["x-request-id"]), ("abc", "abc"))

    def test_the_same_as_chat(self):
        fields = {"temperature": 1, "seed": 7, "top_k": 5, "max_tokens": 30}
        chat = self.server.post(
            "/v1/chat/completions",
            {
                "messages": [
                    {"role": "system", "content": "s"},
                    {"role": "user", "content": "script:random"},
                ],
                **fields,
            },
        )[1]
        whole, _ = self.both("script:random", system="s", **fields)
        self.assertEqual(self.text(whole), chat["choices"][0]["message"]["content"])
        self.assertEqual(
            self.sums(whole), (chat["usage"]["prompt_tokens"], chat["usage"]["completion_tokens"])
        )

    def test_cached_tokens_are_counted_apart(self):
        request = body("c" * 64 + "script:hello")
        first = self.server.post(PATH, request)[1]["usage"]
        second = self.server.post(PATH, request)[1]["usage"]
        self.assertEqual(first["cache_read_input_tokens"], 0)
        self.assertGreater(second["cache_read_input_tokens"], 0)
        self.assertEqual(
            second["cache_read_input_tokens"] + second["input_tokens"], first["input_tokens"]
        )

    def test_an_answer_that_the_client_begins(self):
        """The prompt ends with the assistant's text: no end of turn, no new turn."""
        request = {
            "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "script:hello"}]
        }
        whole = self.server.post(PATH, {**request, "max_tokens": 50})[1]
        self.assertEqual(self.text(whole), "hello world!")
        ended = {"messages": request["messages"] + [{"role": "user", "content": "hi"}]}
        self.assertLess(
            self.server.post(COUNT, request)[1]["input_tokens"],
            self.server.post(COUNT, ended)[1]["input_tokens"],
        )

    def test_utf8(self):
        for script, text in (("emoji2", "a😀b"), ("family", "x👨\u200d👩\u200d👧y"), ("badff", "\ufffdh")):
            self.assertEqual(self.text(self.both("script:" + script)[0]), text)
        whole, _ = self.both("script:separators")
        self.assertEqual(self.text(whole), "a\u2028b\r\ndata: x\n\n\"q\"\\\t")

    def test_stop_reasons(self):
        whole, _ = self.both("script:endless", max_tokens=3)
        self.assertEqual((whole["stop_reason"], whole["usage"]["output_tokens"]), ("max_tokens", 3))
        whole, _ = self.both("script:hello", stop_sequences=["zzz", "world"])
        self.assertEqual((whole["stop_reason"], whole["stop_sequence"]), ("stop_sequence", "world"))
        self.assertEqual(self.text(whole), "hello ")
        whole, _ = self.both("script:78", stop_sequences=["7"])
        self.assertEqual((whole["content"], whole["stop_reason"]), ([], "stop_sequence"))

    def test_max_tokens_beyond_the_context(self):
        whole, _ = self.both("script:endless", max_tokens=32000)
        self.assertEqual(whole["stop_reason"], "model_context_window_exceeded")
        self.assertEqual(sum(self.sums(whole)), 512)

    def test_count_tokens(self):
        for content, more in (("hello", {}), ("x" * 300, {}), ("hi", {"system": "s"})):
            request = body(content, **more)
            counted = self.server.post(COUNT, {k: v for k, v in request.items() if k != "max_tokens"})
            self.assertEqual(counted[0], 200)
            self.assertEqual(set(counted[1]), {"input_tokens"})
            whole = self.server.post(PATH, {**request, "max_tokens": 1})[1]
            self.assertEqual(counted[1]["input_tokens"], self.sums(whole)[0])
        # More than the context is a number, too.
        status, counted = self.server.post(COUNT, {"messages": [{"role": "user", "content": "x" * 3000}]})
        self.assertEqual(status, 200)
        self.assertGreater(counted["input_tokens"], 3000)

    def test_errors(self):
        long = body("x" * 5000)
        for request, status, kind in (
            (long, 400, "invalid_request_error"),
            (body("hi", temperature=1.5), 400, "invalid_request_error"),
            (body("hi", model="nope"), 404, "not_found_error"),
            (body([{"type": "image", "source": {}}]), 400, "invalid_request_error"),
            (body("hi", tools=[{"type": "bash_20250124", "name": "bash"}]), 400, "invalid_request_error"),
            ({"messages": [{"role": "user", "content": "hi"}]}, 400, "invalid_request_error"),
            (body("script:faultfirst"), 500, "api_error"),
        ):
            whole = self.server.post(PATH, request)
            self.assert_messages_error(whole, status, kind)
            self.assertEqual(self.server.post(PATH, {**request, "stream": True}), whole)
        for raw in (b"", b"{", b"[]", b'{"messages": 1, "messages": 2}'):
            for path in (PATH, COUNT):
                status, _, data = self.server.request(path, raw)
                self.assert_messages_error((status, json.loads(data)), 400, "invalid_request_error")
        self.assert_messages_error(self.server.post(COUNT, {"messages": []}), 400, "invalid_request_error")

    def test_errors_of_the_transport(self):
        for path in (PATH, COUNT):
            for status, kind, options in (
                (405, "invalid_request_error", {"method": "GET"}),
                (415, "invalid_request_error", {"headers": {"Content-Encoding": "gzip"}}),
                (413, "request_too_large", {"headers": {"Content-Length": str(1 << 40)}}),
            ):
                body_text = None if status == 405 else b"{}"
                answer, _, data = self.server.request(path, body_text, **options)
                self.assert_messages_error((answer, json.loads(data)), status, kind)

    def test_error_in_mid_stream(self):
        for script in ("fault", "throw"):
            stream = EventStream(self.server, PATH, body("script:" + script))
            self.assertEqual(stream.last()["type"], "error")
            self.assertEqual(stream.last()["error"]["type"], "api_error")
            self.assertNotIn("message_stop", stream.names())
            self.assert_messages_error(
                self.server.post(PATH, body("script:" + script)), 500, "api_error"
            )
        self.assertTrue(self.server.wait_idle())

    def test_a_client_that_leaves(self):
        connection = self.server.open_stream(PATH, body("script:slow"))
        received = b""
        while b"text_delta" not in received:
            received += connection.recv(4096)
        connection.close()
        self.assertTrue(self.server.wait_idle())


class BusyTest(ProtocolTest):
    flags = {"max_num_seqs": 1, "max_num_queued_reqs": 1}

    def test_overloaded(self):
        running = [self.server.open_stream(PATH, body("script:slow")) for _ in range(2)]
        answer = None
        for _ in range(200):
            status, headers, data = self.server.request(PATH, body("script:hello", max_tokens=1, timeout=1))
            if status == 503:
                answer = json.loads(data)
                self.assertIn("retry-after", headers)
                break
        self.assertEqual(answer["error"]["type"], "overloaded_error")
        for connection in running:
            connection.close()
        self.assertTrue(self.server.wait_idle())


if __name__ == "__main__":
    unittest.main()
