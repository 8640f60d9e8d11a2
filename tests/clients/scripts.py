"""What the scripted model says to the clients, and the chat template that gives it tools."""

import json

# The tools stand in the prompt as a Hermes template puts them; a call that was made stands in it, too.
TEMPLATE = (
    "{%- if tools %}{{ '<tools>' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}"
    "{{ '</tools> answer with <tool_call></tool_call>' }}{% endif -%}"
    "{%- for m in messages -%}{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') }}"
    "{%- for call in m.tool_calls or [] -%}{{ '<tool_call>' + (call.function | tojson) + '</tool_call>' }}"
    "{%- endfor -%}{{ '<|im_end|>\\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- endif -%}"
)
ALPHABET = "DEFGHIJ"
PERSON = {"name": "Zoë", "age": 41, "tags": ["a", "b\n"]}
WEATHER = {"city": "Oslo", "unit": "C"}


def tool_call(name, arguments):
    call = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{call}\n</tool_call>"


TEXTS = {
    "person": json.dumps(PERSON, ensure_ascii=False),
    "weather": tool_call("Weather", WEATHER),
    "both": "Looking.\n" + tool_call("Weather", WEATHER) + "\n" + tool_call("Clock", {}),
    "personcall": tool_call("Person", PERSON),
}
SCRIPTS = {name: {"pieces": [[byte] for byte in text.encode()]} for name, text in TEXTS.items()}


def turn(script):
    return [{"role": "user", "content": "script:" + script}]
