"""CASES section I and B013, B040, B041, B049: tool calls and reasoning in chat, whole and streamed."""

import json
import unittest

import client
from client import ProtocolTest

CHAT = "/v1/chat/completions"

# The markup stands in the template, so that the server knows it; what users write comes after it.
HERMES = (
    "{%- if tools %}{{ '<tools>' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}"
    "{{ '</tools> answer with <tool_call></tool_call>' }}{% endif -%}"
    "{%- for m in messages -%}{{ '<|im_start|>' + m.role + '\\n' + m.content }}"
    "{%- for call in m.tool_calls or [] -%}{{ '<tool_call>' + (call.function | tojson) + "
    "'</tool_call>' }}{%- endfor -%}"
    "{{ '<|im_end|>\\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|assistant|>' }}"
    "{%- if enable_thinking is defined and enable_thinking -%}{{ '<think>\\n' }}{%- endif -%}{%- endif -%}"
    "{#- </think> -#}"
)

CALL = '<tool_call>\n{"name": "f", "arguments": {"city": "Zürich", "n": [1, {"}": "\\""}]}}\n</tool_call>'
ARGUMENTS = '{"city": "Zürich", "n": [1, {"}": "\\""}]}'
TWO = "Let me look.\n" + CALL + '\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'


def function(name, **more):
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}, **more}}


TOOLS = [function("f"), function("now")]

TEXTS = {
    "onecall": CALL,
    "twocalls": TWO,
    "noargs": '<tool_call>{"name": "now"}</tool_call>',
    "nullargs": '<tool_call>{"name": "now", "arguments": null}</tool_call>',
    "unknown": '<tool_call>{"name": "other", "arguments": {}}</tool_call>',
    "broken": '<tool_call>{"name": "f", arguments}</tool_call>',
    "brokenargs": '<tool_call>{"name": "f", "arguments": {"a": oops}}</tool_call>',
    "partial": 'text <tool_call>{"name": "f"',
    "around": 'before <tool_call>{"name": "now", "arguments": {}}</tool_call> after',
    "fence": '```\n<tool_call>{"name": "now", "arguments": {}}</tool_call>\n```',
    "thinktag": "<thinking>x</thinking>",
    "thinkquote": "<think>a <tool_call> b</think>ans",
    "thinkcall": "<think>hm</think>\n" + CALL,
    # The script starts behind <|assistant|>, so that "<think>\n" in the prompt skips its first eight bytes.
    "opened": "########r</think>ans",
    "openedlong": "########" + "r" * 20,
    "plainlong": "just an answer",
}

client.SCRIPTS.update({name: {"pieces": [[byte] for byte in text.encode()]} for name, text in TEXTS.items()})
client.SCRIPTS["b110"] = {"pieces": ["<th", "ink>r", "</", "think", ">ans"]}
client.SCRIPTS["slowcall"] = {"pieces": [[byte] for byte in CALL.encode()], "delay_ms": 3}
client.SCRIPTS["bigpieces"] = {"pieces": [TWO[i : i + 11] for i in range(0, len(TWO), 11)]}


def ask(script, **fields):
    return {"messages": [{"role": "user", "content": "script:" + script}], **fields}


def joined(stream, index=0):
    """The message that the deltas make, with the rules of B106 checked."""
    message = {"content": "", "reasoning_content": "", "tool_calls": []}
    for choice in stream.choices(index):
        delta = choice["delta"]
        for key in ("content", "reasoning_content"):
            message[key] += delta.get(key) or ""
        assert delta.get("reasoning") == delta.get("reasoning_content")
        for call in delta.get("tool_calls", []):
            if call["index"] == len(message["tool_calls"]):
                assert call["type"] == "function" and call["id"] and call["function"]["name"]
                assert call["function"]["arguments"] == ""
                message["tool_calls"].append({**call, "function": dict(call["function"])})
            else:
                assert call["index"] == len(message["tool_calls"]) - 1
                assert set(call) == {"index", "function"} and set(call["function"]) == {"arguments"}
                message["tool_calls"][-1]["function"]["arguments"] += call["function"]["arguments"]
    return message


class ToolsTest(ProtocolTest):
    flags = {"chat_template": HERMES}

    def both(self, script, **fields):
        """The whole answer's message and finish reason, after the streamed ones were compared with them."""
        body = ask(script, tools=TOOLS, **fields)
        status, answer = self.server.post(CHAT, body)
        self.assertEqual(status, 200, answer)
        choice = answer["choices"][0]
        message = choice["message"]
        stream = self.server.stream(CHAT, body)
        deltas = joined(stream)
        self.assertEqual(stream.finishes(), [choice["finish_reason"]])
        self.assertEqual(deltas["content"], message["content"] or "")
        self.assertEqual(deltas["reasoning_content"], message.get("reasoning_content") or "")
        functions = [call["function"] for call in message.get("tool_calls", [])]
        self.assertEqual([call["function"] for call in deltas["tool_calls"]], functions)
        self.assertEqual([call["index"] for call in deltas["tool_calls"]], list(range(len(functions))))
        return message, choice["finish_reason"]

    def test_b106_calls(self):
        message, finish = self.both("onecall")
        self.assertEqual(finish, "tool_calls")
        self.assertIsNone(message["content"])
        (call,) = message["tool_calls"]
        self.assertEqual((call["type"], call["function"]["name"]), ("function", "f"))
        self.assertEqual(call["function"]["arguments"], ARGUMENTS)
        for script in ("twocalls", "bigpieces"):
            message, finish = self.both(script)
            self.assertEqual(finish, "tool_calls")
            self.assertEqual(message["content"], "Let me look.")
            self.assertEqual([c["function"]["name"] for c in message["tool_calls"]], ["f", "now"])
            self.assertEqual(len({c["id"] for c in message["tool_calls"]}), 2)

    def test_b106_arguments_are_streamed(self):
        stream = self.server.stream(CHAT, ask("slowcall", tools=TOOLS))
        pieces = [c for c in stream.choices() if c["delta"].get("tool_calls")]
        self.assertGreater(len(pieces), 10)

    def test_b013_finish_reason(self):
        length = len(TWO.encode())
        for max_tokens in range(1, length + 3):
            message, finish = self.both("twocalls", max_tokens=max_tokens)
            for call in message.get("tool_calls", []):
                try:
                    json.loads(call["function"]["arguments"])
                except ValueError:
                    self.assertEqual(finish, "length")
            self.assertEqual(finish, "length" if max_tokens <= length else "tool_calls", max_tokens)
        self.assertEqual(self.both("plainlong")[1], "stop")

    def test_b108_odd_calls(self):
        for script in ("noargs", "nullargs"):
            self.assertEqual(self.both(script)[0]["tool_calls"][0]["function"]["arguments"], "{}")
        message, finish = self.both("unknown")
        self.assertEqual((message["tool_calls"][0]["function"]["name"], finish), ("other", "tool_calls"))
        for script in ("broken", "partial"):
            message, finish = self.both(script)
            self.assertEqual((message["content"], finish), (TEXTS[script], "stop"))
            self.assertNotIn("tool_calls", message)
        message, finish = self.both("brokenargs")
        self.assertEqual(finish, "stop")
        self.assertEqual(message["tool_calls"][0]["function"]["arguments"], '{"a": ')
        self.assertEqual(message["content"], "oops}}</tool_call>")
        message, finish = self.both("around")
        self.assertEqual((message["content"], len(message["tool_calls"])), ("beforeafter", 1))
        message, finish = self.both("fence")
        self.assertEqual((message["content"], finish), ("``````", "tool_calls"))

    def test_b109_none_and_serial(self):
        message, finish = self.both("onecall", tool_choice="none")
        self.assertEqual((message["content"], finish), (CALL, "stop"))
        self.assertNotIn("tool_calls", message)
        message, finish = self.both("twocalls", parallel_tool_calls=False)
        self.assertEqual([c["function"]["name"] for c in message["tool_calls"]], ["f"])
        self.assertEqual(finish, "tool_calls")
        status, plain = self.server.post(CHAT, ask("onecall"))
        self.assertEqual(plain["choices"][0]["message"]["content"], CALL)

    def test_stop_strings_see_the_whole_output(self):
        message, finish = self.both("twocalls", stop=["Zür"])
        self.assertEqual(finish, "stop")
        self.assertEqual(message["tool_calls"][0]["function"]["arguments"], '{"city": "')

    def test_functions_of_before_tools(self):
        body = ask("onecall", functions=[{"name": "f"}])
        choice = self.server.post(CHAT, body)[1]["choices"][0]
        self.assertEqual(choice["message"]["function_call"], {"name": "f", "arguments": ARGUMENTS})
        self.assertEqual(choice["finish_reason"], "function_call")
        stream = self.server.stream(CHAT, body)
        calls = [c["delta"]["function_call"] for c in stream.choices() if "function_call" in c["delta"]]
        self.assertEqual(calls[0], {"name": "f", "arguments": ""})
        self.assertEqual("".join(c["arguments"] for c in calls), ARGUMENTS)

    def test_logprobs_and_ids_cover_every_token(self):
        body = ask("twocalls", tools=TOOLS, logprobs=True, return_token_ids=True)
        choice = self.server.post(CHAT, body)[1]["choices"][0]
        count = len(TWO.encode())
        self.assertEqual(len(choice["logprobs"]["content"]), count)
        self.assertEqual(len(choice["token_ids"]), count)
        stream = self.server.stream(CHAT, body)
        scores = [e for c in stream.choices() if c["logprobs"] for e in c["logprobs"]["content"]]
        ids = [i for c in stream.choices() for i in c.get("token_ids", [])]
        self.assertEqual(scores, choice["logprobs"]["content"])
        self.assertEqual(ids, choice["token_ids"])

    def test_choices_have_their_own_calls(self):
        stream = self.server.stream(CHAT, ask("twocalls", tools=TOOLS, n=2))
        for index in (0, 1):
            self.assertEqual(len(joined(stream, index)["tool_calls"]), 2)

    def test_b049_validation(self):
        cases = [
            ({"tool_choice": "required"}, "tool_choice"),
            ({"tools": [], "tool_choice": "required"}, "tool_choice"),
            ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
            ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {}}}, "tool_choice"),
            ({"tools": TOOLS, "tool_choice": "foo"}, "tool_choice"),
            ({"tools": TOOLS + TOOLS}, "tools[2].function.name"),
            ({"tools": [{"type": "function"}]}, "tools[0].function"),
            ({"tools": [function("f")] * 10000}, "tools"),
            ({"tools": "x"}, "tools"),
        ]
        for fields, param in cases:
            self.assert_error(self.server.post(CHAT, ask("onecall", **fields)), 400, param)
        for fields in (
            {"tools": []},
            {"tools": [], "tool_choice": "none"},
            {"tools": None, "tool_choice": "auto"},
        ):
            self.assertEqual(self.server.post(CHAT, ask("plainlong", **fields))[0], 200)

    def test_tools_are_shown_as_given(self):
        tools = [function("f", description="é <b>", parameters={"z": 1, "a": {"y": 2, "b": 3}})]
        tools[0]["function"]["parameters"]["type"] = "object"
        status, answer = self.server.post(
            "/apply-template", {"messages": ask("x")["messages"], "tools": tools}
        )
        self.assertEqual(status, 200, answer)
        self.assertIn("<tools>" + json.dumps(tools[0], ensure_ascii=False) + "</tools>", answer["prompt"])

    def test_b040_b041_history(self):
        def prompt(message, arguments='{"city":"Paris"}'):
            call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
            turns = [
                {"role": "user", "content": "u"},
                {"role": "assistant", **message, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "r"},
            ]
            return self.server.post("/apply-template", {"messages": turns, "tools": TOOLS})

        wanted = prompt({"content": None})[1]["prompt"]
        self.assertIn('{"name": "f", "arguments": {"city": "Paris"}}', wanted)
        self.assertNotIn("None", wanted)
        for message in ({}, {"content": ""}):
            self.assertEqual(prompt(message)[1]["prompt"], wanted)
        self.assertEqual(prompt({}, {"city": "Paris"})[1]["prompt"], wanted)
        for empty in ("", None, "{}"):
            self.assertIn('"arguments": {}', prompt({}, empty)[1]["prompt"])
        for wrong in ("[1]", "{", "5"):
            self.assert_error(prompt({}, wrong), 400, "messages[1].tool_calls")

    def test_b110_reasoning(self):
        message, finish = self.both("b110")
        self.assertEqual((message["reasoning_content"], message["content"], finish), ("r", "ans", "stop"))
        self.assertEqual(message["reasoning"], "r")
        message, _ = self.both("thinktag")
        self.assertEqual((message["content"], message["reasoning_content"]), (TEXTS["thinktag"], None))
        message, _ = self.both("thinkquote")
        self.assertEqual((message["content"], message["reasoning_content"]), ("ans", "a <tool_call> b"))
        message, finish = self.both("thinkcall")
        self.assertEqual((message["content"], message["reasoning_content"]), (None, "hm"))
        self.assertEqual(finish, "tool_calls")
        message, _ = self.both("b110", include_reasoning=False)
        self.assertEqual((message["content"], message["reasoning_content"]), ("ans", None))

    def test_b110_the_prompt_opens_it(self):
        thinking = {"chat_template_kwargs": {"enable_thinking": True}}
        message, finish = self.both("opened", **thinking)
        self.assertEqual((message["reasoning_content"], message["content"]), ("r", "ans"))
        message, finish = self.both("openedlong", max_tokens=10, **thinking)
        self.assertEqual(
            (message["reasoning_content"], message["content"], finish), ("r" * 10, None, "length")
        )
        message, _ = self.both("opened")
        self.assertEqual((message["reasoning_content"], message["content"]), (None, TEXTS["opened"]))
        message, _ = self.both("opened", **thinking, reasoning_effort="none")
        self.assertEqual(message["reasoning_content"], "r", "chat_template_kwargs come last")


if __name__ == "__main__":
    unittest.main()
