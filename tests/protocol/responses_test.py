"""POST /v1/responses: shapes, events, limits and errors over the scripted model."""

import json
import unittest

from client import ProtocolTest
from events import EventStream

PATH = "/v1/responses"
CHAT = "/v1/chat/completions"
MESSAGE_EVENTS = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
]
MESSAGE_END = ["response.output_text.done", "response.content_part.done", "response.output_item.done"]


def without_ids(response):
    """What does not depend on the request's id and time."""
    text = json.dumps({**response, "created_at": 0}).replace(response["id"].removeprefix("resp_"), "ID")
    parsed = json.loads(text)
    if parsed["usage"]:
        parsed["usage"]["input_tokens_details"] = None  # the second time the prompt comes from the cache
    return parsed


class ResponsesTest(ProtocolTest):
    def both(self, content, **fields):
        """The whole answer; checks that the stream ends with the same and that its deltas say the same."""
        body = {"input": content, **fields}
        status, whole = self.server.post(PATH, body)
        self.assertEqual(status, 200, whole)
        stream = EventStream(self.server, PATH, body)
        self.assertEqual(without_ids(stream.last()["response"]), without_ids(whole))
        self.assertEqual(
            [event["sequence_number"] for event in stream.events], list(range(len(stream.events)))
        )
        text = "".join(event["delta"] for event in stream.of("response.output_text.delta"))
        self.assertEqual(text, self.text(whole))
        self.assertEqual(stream.of("response.output_text.done")[0]["text"], text)
        names = stream.names()
        deltas = names.count("response.output_text.delta")
        self.assertEqual(
            names,
            MESSAGE_EVENTS
            + ["response.output_text.delta"] * deltas
            + MESSAGE_END
            + ["response." + whole["status"]],
        )
        return whole, stream

    @staticmethod
    def text(response):
        return "".join(part["text"] for item in response["output"] for part in item.get("content", []))

    def test_shape(self):
        whole, stream = self.both("script:hello", instructions="be brief", metadata={"a": "b"})
        self.assertEqual(self.text(whole), "hello world!")
        self.assertEqual((whole["object"], whole["status"], whole["error"]), ("response", "completed", None))
        self.assertEqual((whole["instructions"], whole["metadata"]), ("be brief", {"a": "b"}))
        self.assertTrue(whole["id"].startswith("resp_"))
        self.assertTrue(whole["output"][0]["id"].startswith("msg_"))
        for event in stream.of("response.created") + stream.of("response.in_progress"):
            self.assertEqual(event["response"]["status"], "in_progress")
            self.assertEqual(event["response"]["output"], [])
        for event in stream.events:
            if "item_id" in event:
                self.assertEqual(event["item_id"], stream.of("response.output_item.done")[0]["item"]["id"])

    def test_the_same_as_chat(self):
        """The template sees the same messages, so tokens and usage are the same."""
        fields = {"temperature": 1, "seed": 7, "top_k": 5}
        chat = self.server.post(
            CHAT,
            {
                "messages": [
                    {"role": "system", "content": "s"},
                    {"role": "user", "content": "script:random"},
                ],
                "max_tokens": 30,
                **fields,
            },
        )[1]
        whole, _ = self.both("script:random", instructions="s", max_output_tokens=30, **fields)
        self.assertEqual(self.text(whole), chat["choices"][0]["message"]["content"])
        self.assertEqual(whole["usage"]["input_tokens"], chat["usage"]["prompt_tokens"])
        self.assertEqual(whole["usage"]["output_tokens"], chat["usage"]["completion_tokens"])
        self.assertEqual(whole["usage"]["total_tokens"], chat["usage"]["total_tokens"])

    def test_items_are_a_conversation(self):
        items = [
            {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
            {"role": "user", "content": "script:hello"},
        ]
        whole, _ = self.both(items)
        self.assertEqual(self.text(whole), "hello world!")
        again = self.server.post(PATH, {"input": items})[1]
        self.assertGreater(again["usage"]["input_tokens_details"]["cached_tokens"], 0)

    def test_utf8(self):
        for script, text in (("emoji2", "a😀b"), ("family", "x👨\u200d👩\u200d👧y"), ("badff", "\ufffdh")):
            self.assertEqual(self.text(self.both("script:" + script)[0]), text)

    def test_separators_do_not_break_the_frames(self):
        whole, _ = self.both("script:separators", max_output_tokens=50)
        self.assertEqual(self.text(whole), "a\u2028b\r\ndata: x\n\n\"q\"\\\t")

    def test_length(self):
        whole, stream = self.both("script:endless", max_output_tokens=3)
        self.assertEqual(whole["status"], "incomplete")
        self.assertEqual(whole["incomplete_details"], {"reason": "max_output_tokens"})
        self.assertEqual(whole["output"][0]["status"], "incomplete")
        self.assertEqual(whole["usage"]["output_tokens"], 3)
        self.assertEqual(stream.last()["type"], "response.incomplete")

    def test_stop(self):
        whole, _ = self.both("script:hello", stop=["world"])
        self.assertEqual((self.text(whole), whole["status"]), ("hello ", "completed"))
        whole, _ = self.both("script:78", stop=["7"])
        self.assertEqual(whole["output"][0]["content"][0]["text"], "")

    def test_logprobs(self):
        fields = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
        whole, stream = self.both("script:hello", **fields)
        entries = whole["output"][0]["content"][0]["logprobs"]
        self.assertEqual([entry["token"] for entry in entries], ["hello wor", "ld!"])
        self.assertEqual([len(entry["top_logprobs"]) for entry in entries], [2, 2])
        streamed = [e for event in stream.of("response.output_text.delta") for e in event["logprobs"]]
        self.assertEqual(streamed, entries)

    def test_error_in_mid_stream(self):
        for script in ("fault", "throw"):
            stream = EventStream(self.server, PATH, {"input": "script:" + script})
            self.assertEqual(stream.names()[-2:], ["error", "response.failed"])
            error = stream.of("error")[0]
            self.assertEqual(error["code"], "server_error")
            self.assertTrue(error["message"])
            self.assertEqual(stream.last()["response"]["error"]["message"], error["message"])
            self.assertEqual(self.server.post(PATH, {"input": "script:" + script})[0], 500)
        self.assertTrue(self.server.wait_idle())

    def test_errors_before_the_first_token_are_statuses(self):
        for body, status, param in (
            ({"input": "x" * 5000}, 400, "input"),
            ({"input": "hi", "max_output_tokens": 10**6}, 400, "input"),
            ({"input": "script:faultfirst"}, 500, None),
            ({"input": "hi", "model": "nope"}, 404, "model"),
            ({"input": [{"role": "reject", "content": "x"}]}, 400, "input[0].role"),
            ({"input": "hi", "tools": [{"type": "web_search"}]}, 400, "tools[0].type"),
            ({"input": "hi", "previous_response_id": "resp_1"}, 400, "previous_response_id"),
            ({"input": "hi", "logit_bias": {"999999": 1}}, 400, "logit_bias"),
            ({"input": "hi", "timeout": -1}, 400, "timeout"),
        ):
            whole = self.server.post(PATH, body)
            error = self.assert_error(whole, status)
            self.assertEqual(error["param"], param, error)
            self.assertEqual(self.server.post(PATH, {**body, "stream": True}), whole)

    def test_bad_bodies(self):
        for body in (b"", b"{", b"[]", b"null", b'{"input": "a", "input": "b"}', b"\xff"):
            self.assertEqual(self.server.request(PATH, body)[0], 400, body)
        self.assertEqual(self.server.request(PATH, method="GET")[0], 405)

    def test_unknown_fields_are_named(self):
        _, headers, _ = self.server.request(PATH, {"input": "script:hello", "zap": 1, "n": 2})
        self.assertIn("zap", headers["warning"])
        self.assertIn("n", headers["warning"])
        _, headers, _ = self.server.request(PATH, {"input": "script:hello", "store": True, "user": "u"})
        self.assertNotIn("warning", headers)

    def test_a_client_that_leaves(self):
        connection = self.server.open_stream(PATH, {"input": "script:slow"})
        received = b""
        while b"output_text.delta" not in received:
            received += connection.recv(4096)
        connection.close()
        self.assertTrue(self.server.wait_idle())


class StrictTest(ProtocolTest):
    flags = {"strict_params": 1}

    def test_unknown_field(self):
        self.assert_error(self.server.post(PATH, {"input": "hi", "zap": 1}), 400, "zap")
        self.assert_error(
            self.server.post(PATH, {"input": "hi", "reasoning": {"zap": 1}}), 400, "reasoning.zap"
        )


if __name__ == "__main__":
    unittest.main()
