"""Filling in the middle with Qwen2.5-Coder-0.5B, greedy: what stands between two pieces of code."""

import httpx
import pytest

import pagoda_server

CODER = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
NAME = pagoda_server.MODEL_NAME

# Before the cursor, behind it, and a text that the middle must have.
CASES = {
    "python add": ("def add(a, b):\n    ", "\n\nprint(add(1, 2))", "a + b"),
    "python area": (
        "class Rectangle:\n    def __init__(self, width, height):\n        self.width = width\n"
        "        self.height = height\n\n    def area(self):\n        return ",
        "\n",
        "self.width * self.height",
    ),
    "python import": ("import ", "\n\nprint(json.dumps({'a': 1}))\n", "json"),
    "python arguments": ("def greet(", "):\n    print(f\"Hello, {name}!\")\n", "name"),
    "python loop": (
        "numbers = [1, 2, 3]\ntotal = 0\nfor number in ",
        ":\n    total += number\nprint(total)\n",
        "numbers",
    ),
    "python with": ("with open('data.txt') as ", ":\n    for line in f:\n        print(line)\n", "f"),
    "python base case": (
        "def factorial(n):\n    if n == 0:\n        return ",
        "\n    return n * factorial(n - 1)\n",
        "1",
    ),
    "python recursion": (
        "def factorial(n):\n    if n <= 1:\n        return 1\n    return ",
        "\n\nprint(factorial(5))\n",
        "factorial(n - 1)",
    ),
    "javascript add": ("function add(a, b) {\n  ", "\n}\n\nconsole.log(add(1, 2));\n", "a + b"),
    "javascript arrow": ("const square = (x) => ", ";\nconsole.log(square(3));\n", "x * x"),
    "javascript filter": ("const evens = numbers.filter((n) => ", ");\n", "n % 2 === 0"),
    "c max": ("int max(int a, int b) {\n    return ", ";\n}\n", "a > b ? a : b"),
    "c include": (
        "#include <",
        ">\n\nint main(void) {\n    printf(\"hi\\n\");\n    return 0;\n}\n",
        "stdio.h",
    ),
    "c++ push": ("std::vector<int> v;\nfor (int i = 0; i < 10; ++i) {\n    v.", "(i);\n}\n", "push_back"),
    "java getter": (
        "public class User {\n    private String name;\n\n    "
        "public String getName() {\n        ",
        "\n    }\n}\n",
        "return name;",
    ),
    "go error": ("file, err := os.Open(name)\nif ", " {\n\treturn err\n}\n", "err != nil"),
    "rust sum": ("fn sum(values: &[i32]) -> i32 {\n    ", "\n}\n", "values.iter().sum()"),
    "sql where": ("CREATE TABLE users (id INT, age INT);\nSELECT id FROM users WHERE ", " > 18;\n", "age"),
    "html close": ("<ul>\n  <li>One</li>\n  <li>Two", "\n  <li>Three</li>\n</ul>\n", "</li>"),
    "json comma": ("{\n  \"name\": \"pagoda\"", "\n  \"version\": \"1.0\"\n}\n", ","),
}
CONTROL = ("<|fim_", "<|file_sep|>", "<|repo_name|>", "<|endoftext|>", "<|im_")


@pytest.fixture(scope="module")
def coder(prerequisites, tmp_path_factory):
    path = pagoda_server.model_path().parent / CODER
    if not path.exists():
        pytest.skip(f"no model at {path}; run scripts/fetch_model qwen-coder-0.5b")
    running = pagoda_server.Server(
        tmp_path_factory.mktemp("coder") / "log", "--max-model-len", "2048", model=path
    ).wait_ready()
    yield running
    assert running.stop() == 0, running.log()


def fill(coder, prefix, suffix, **fields):
    answer = coder.client().completions.create(
        model=NAME, prompt=prefix, suffix=suffix, **({"max_tokens": 48, "temperature": 0} | fields)
    )
    return answer.choices[0]


def infill(coder, prefix, suffix, **fields):
    body = {"input_prefix": prefix, "input_suffix": suffix, "n_predict": 48, "temperature": 0} | fields
    return httpx.post(coder.url + "/infill", json=body, timeout=300).raise_for_status()


@pytest.mark.parametrize("name", CASES)
def test_middle(coder, name):
    prefix, suffix, wanted = CASES[name]
    choice = fill(coder, prefix, suffix)
    assert wanted in choice.text.splitlines()[0] or wanted in choice.text, choice.text
    assert not any(control in choice.text for control in CONTROL)
    first_line = next((line.rstrip() for line in suffix.splitlines() if line.strip()), None)
    if suffix.startswith("\n"):
        assert first_line not in choice.text.splitlines()[1:], "the suffix is repeated"
    assert infill(coder, prefix, suffix).json()["content"] == choice.text
    streamed = coder.client().completions.create(
        model=NAME, prompt=prefix, suffix=suffix, max_tokens=48, temperature=0, stream=True
    )
    assert "".join(chunk.choices[0].text for chunk in streamed) == choice.text


def test_prompt_is_the_models_own(coder):
    choice = fill(coder, "a", "b", max_tokens=1, extra_body={"return_token_ids": True})
    assert choice.prompt_token_ids == [151659, 64, 151661, 65, 151660]


def test_control_tokens_of_users_are_text(coder):
    choice = fill(
        coder, "x = '<|fim_suffix|>'", "<|fim_middle|>", max_tokens=1, extra_body={"return_token_ids": True}
    )
    assert [i for i in choice.prompt_token_ids if i >= 151643] == [151659, 151661, 151660]


def test_other_files_are_seen(coder):
    files = [
        {
            "filename": "shop.py",
            "text": "def compute_vat_of_invoice(invoice):\n    return invoice.net * 0.19\n",
        }
    ]
    answer = infill(
        coder,
        "from shop import compute_vat_of_invoice\n\nvat = compute_",
        "(invoice)\n",
        input_extra=files,
        stop=["\n"],
    ).json()
    assert answer["content"].startswith("vat_of_invoice")
    assert answer["stop_type"] in ("eos", "word")


def test_a_file_longer_than_the_context(coder):
    noise = "".join(f"value_{i} = {i}\n" for i in range(2000))
    response = infill(coder, noise + "def add(a, b):\n    return ", "\n\nprint(add(1, 2))\n" + noise)
    answer = response.json()
    assert "a + b" in answer["content"]
    assert answer["truncated"] is True
    assert answer["tokens_evaluated"] <= 2048 - 48
    assert "suffix=" in response.headers["x-prompt-truncated"]


def test_stop_strings_of_code(coder):
    choice = fill(coder, "def add(a, b):\n    ", "", max_tokens=64)
    plain = coder.client().completions.create(
        model=NAME, prompt="def add(a, b):\n    ", max_tokens=64, temperature=0
    )
    assert choice.text == plain.choices[0].text, "an empty suffix is none"
    for stop in (["\n\n"], ["\ndef ", "\nclass "]):
        text = fill(coder, "def add(a, b):\n    ", "\n", max_tokens=64, stop=stop).text
        assert not any(word in text for word in stop)


def test_template_of_the_command_line(coder, start_server):
    path = pagoda_server.model_path().parent / CODER
    server = start_server(
        "--max-model-len",
        "512",
        "--fim-template",
        "<|fim_suffix|>{suffix}<|fim_prefix|>{prefix}<|fim_middle|>",
        model=path,
    )
    choice = fill(server, "a", "b", max_tokens=1, extra_body={"return_token_ids": True})
    assert choice.prompt_token_ids == [151661, 65, 151659, 64, 151660]


def test_a_model_without_fim_tokens(server):
    for path, body in (
        ("/v1/completions", {"prompt": "a", "suffix": "b"}),
        ("/infill", {"input_prefix": "a", "input_suffix": "b"}),
    ):
        response = httpx.post(server.url + path, json=body, timeout=60)
