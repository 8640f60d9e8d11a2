"""Tools and reasoning in Responses and Messages: markup of the model comes as items and blocks."""

import unittest

import client
from client import ProtocolTest
from events import EventStream

RESPONSES = "/v1/responses"
MESSAGES = "/v1/messages"

# Hermes' markup, as Qwen's templates describe it.
TEMPLATE = (
    "{%- if tools %}{{ '<tools>' }}{%- for tool in tools %}{{ tool | tojson }}{%- endfor %}{{ '</tools>' }}"
    "{{ 'For each function call, return a json object with function name and arguments within "
    "<tool_call></tool_call> XML tags:\\n<tool_call>\\n' }}"
    "{{ '{\"name\": <function-name>, \"arguments\": <args-json-object>}\\n</tool_call>' }}{%- endif %}"
    "{%- for m in messages -%}"
    "{%- if m.role == 'assistant' and m.reasoning_content %}"
    "{{ '<think>' + m.reasoning_content + '</think>' }}{%- endif %}"
    "{{ '<|im_start|>' + m.role + '\\n' + m.content }}"
    "{%- for call in m.tool_calls or [] %}{{ '<tool_call>' + (call.function | tojson) + '</tool_call>' }}"
    "{%- endfor %}{{ '<|im_end|>\\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- endif -%}"
)
ARGUMENTS = '{"city": "Zürich \\"ZH\\"", "days": [1, 2]}'
CALL = '<tool_call>\n{"name": "weather", "arguments": ' + ARGUMENTS + "}\n</tool_call>"
THOUGHT = "<think>Let me see.</think>"
PARSED = {"city": 'Zürich "ZH"', "days": [1, 2]}


def single_bytes(text):
    return {"pieces": [[byte] for byte in text.encode()]}


client.SCRIPTS.update(
    {
        "apitool": single_bytes(CALL),
        "apitwo": single_bytes("I look." + CALL + "\n" + CALL),
        "apithink": single_bytes(THOUGHT + "Yes."),
        "apiall": single_bytes(THOUGHT + CALL),
        "apicut": single_bytes(THOUGHT + "x" * 300),
    }
)

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "array"}}}
TOOL = {"name": "weather", "description": "The weather of a city."}
FUNCTION = {"type": "function", **TOOL, "parameters": SCHEMA}


class ToolsTest(ProtocolTest):
    flags = {"chat_template": TEMPLATE, "max_model_len": 2048, "num_blocks": 512}

    def respond(self, script, **fields):
        """The output items; checks that the events say the same."""
        body = {"input": "script:" + script, "tools": [FUNCTION], "max_output_tokens": 400, **fields}
        status, whole = self.server.post(RESPONSES, body)
        self.assertEqual(status, 200, whole)
        stream = EventStream(self.server, RESPONSES, body)
        done = [event["item"] for event in stream.of("response.output_item.done")]
        self.assertEqual(stream.last()["response"]["output"], done)

        def plain(items):
            return [{k: v for k, v in item.items() if k not in ("id", "call_id")} for item in items]

        self.assertEqual(plain(done), plain(whole["output"]))
        deltas = {}
        for event in stream.events:
            if event["type"].endswith(".delta"):
                deltas[event["output_index"]] = deltas.get(event["output_index"], "") + event["delta"]
        for index, item in enumerate(done):
            text = item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]
            self.assertEqual(deltas.get(index, ""), text)
        for name in ("added", "done"):
            indexes = [event["output_index"] for event in stream.of("response.output_item." + name)]
            self.assertEqual(indexes, list(range(len(done))))
        return whole

    def send(self, script, **fields):
        """The message; checks that the events say the same."""
        body = {
            "messages": [{"role": "user", "content": "script:" + script}],
            "tools": [{**TOOL, "input_schema": SCHEMA}],
            "max_tokens": 400,
            **fields,
        }
        status, whole = self.server.post(MESSAGES, body)
        self.assertEqual(status, 200, whole)
        stream = EventStream(self.server, MESSAGES, body)
        blocks, inputs = [], {}
        for event in stream.events:
            if event["type"] == "content_block_start":
                blocks.append(event["content_block"])
            elif event["type"] == "content_block_delta":
                delta = dict(event["delta"])
                kind = delta.pop("type")
                if kind == "input_json_delta":
                    inputs[event["index"]] = inputs.get(event["index"], "") + delta["partial_json"]
                else:
                    for key, value in delta.items():
                        blocks[event["index"]][key] += value
        for index, text in inputs.items():
            blocks[index]["input"] = client.json.loads(text)

        def plain(content):
            return [{k: v for k, v in block.items() if k not in ("id", "signature")} for block in content]

        self.assertEqual(plain(blocks), plain(whole["content"]))
        self.assertEqual(stream.of("message_delta")[0]["delta"]["stop_reason"], whole["stop_reason"])
        return whole

    def test_responses_call(self):
        whole = self.respond("apitool")
        self.assertEqual([item["type"] for item in whole["output"]], ["function_call"])
        call = whole["output"][0]
        self.assertEqual((call["name"], call["status"]), ("weather", "completed"))
        self.assertEqual(client.json.loads(call["arguments"]), PARSED)
        self.assertEqual(whole["status"], "completed")

    def test_responses_text_and_two_calls(self):
        items = self.respond("apitwo")["output"]
        self.assertEqual([item["type"] for item in items], ["message", "function_call", "function_call"])
        self.assertEqual(items[0]["content"][0]["text"], "I look.")
        self.assertNotEqual(items[1]["call_id"], items[2]["call_id"])
        one = self.respond("apitwo", parallel_tool_calls=False)["output"]
        self.assertEqual([item["type"] for item in one], ["message", "function_call"])

    def test_responses_reasoning(self):
        whole = self.respond("apithink")
        self.assertEqual([item["type"] for item in whole["output"]], ["reasoning", "message"])
        self.assertEqual(whole["output"][0]["content"][0]["text"], "Let me see.")
        self.assertEqual(whole["output"][1]["content"][0]["text"], "Yes.")
        used = whole["usage"]
        self.assertGreaterEqual(used["output_tokens_details"]["reasoning_tokens"], len("Let me see."))
        self.assertLess(used["output_tokens_details"]["reasoning_tokens"], used["output_tokens"])
        self.assertEqual(
            [item["type"] for item in self.respond("apiall")["output"]], ["reasoning", "function_call"]
        )

    def test_responses_cut_inside(self):
        whole = self.respond("apitool", max_output_tokens=60)
        self.assertEqual(whole["status"], "incomplete")
        self.assertEqual(whole["output"][-1]["status"], "incomplete")

    def test_responses_go_back(self):
        """The items of an answer and the tool's output are the next input."""
        first = self.server.post(RESPONSES, {"input": "script:apiall", "tools": [FUNCTION]})[1]
        items = [{"role": "user", "content": "script:apiall"}, *first["output"]]
        call = first["output"][-1]
        items.append({"type": "function_call_output", "call_id": call["call_id"], "output": "script:hello"})
        status, second = self.server.post(RESPONSES, {"input": items, "tools": [FUNCTION]})
        self.assertEqual(status, 200, second)
        self.assertEqual(second["output"][-1]["content"][0]["text"], "hello world!")

    def test_messages_call(self):
        whole = self.send("apitool")
        self.assertEqual([block["type"] for block in whole["content"]], ["tool_use"])
        self.assertEqual((whole["content"][0]["name"], whole["content"][0]["input"]), ("weather", PARSED))
        self.assertEqual(whole["stop_reason"], "tool_use")

    def test_messages_blocks_of_all_kinds(self):
        whole = self.send("apitwo")
        self.assertEqual([block["type"] for block in whole["content"]], ["text", "tool_use", "tool_use"])
        one = self.send("apitwo", tool_choice={"type": "auto", "disable_parallel_tool_use": True})
        self.assertEqual([block["type"] for block in one["content"]], ["text", "tool_use"])
        thought = self.send("apithink")
        self.assertEqual([block["type"] for block in thought["content"]], ["thinking", "text"])
        self.assertEqual(thought["content"][0]["thinking"], "Let me see.")
        self.assertTrue(thought["content"][0]["signature"])
        self.assertEqual(thought["stop_reason"], "end_turn")

    def test_messages_cut_inside(self):
        whole = self.send("apicut", max_tokens=100)
        self.assertEqual(whole["stop_reason"], "max_tokens")

    def test_messages_go_back(self):
        turns = [{"role": "user", "content": "script:apiall"}]
        tools = [{**TOOL, "input_schema": SCHEMA}]
        first = self.server.post(MESSAGES, {"messages": turns, "tools": tools, "max_tokens": 400})[1]
        call = first["content"][-1]
        turns += [
            {"role": "assistant", "content": first["content"]},
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": call["id"],
                        "content": [{"type": "text", "text": "script:hello"}],
                    }
                ],
            },
        ]
        status, second = self.server.post(MESSAGES, {"messages": turns, "tools": tools, "max_tokens": 50})
        self.assertEqual(status, 200, second)
        self.assertEqual(second["content"], [{"type": "text", "text": "hello world!"}])

    def test_tool_choice_none(self):
        """Nothing is parsed then: the text is what the model wrote."""
        items = self.respond("apitool", tool_choice="none")["output"]
        self.assertEqual(items[0]["content"][0]["text"], CALL)
        whole = self.send("apitool", tool_choice={"type": "none"})
        self.assertEqual((whole["content"][0]["text"], whole["stop_reason"]), (CALL, "end_turn"))

    def test_errors_name_the_field(self):
        for tool, param in (
            ({"type": "function", "name": "a b"}, "tools[0].name"),
            ({"type": "function"}, "tools[0].name"),
            ({"type": "function", "name": "f", "parameters": 5}, "tools[0].parameters"),
        ):
            self.assert_error(self.server.post(RESPONSES, {"input": "hi", "tools": [tool]}), 400, param)
        choice = {"type": "function", "name": "nope"}
        answer = self.server.post(RESPONSES, {"input": "hi", "tools": [FUNCTION], "tool_choice": choice})
        error = self.assert_error(answer, 400)
        self.assertTrue(error["param"].startswith("tool_choice"), error)


if __name__ == "__main__":
    unittest.main()
