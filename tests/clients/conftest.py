"""Fixtures: servers over the scripted model, whose answers the tests know, and over two real models."""

import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "protocol"), str(HERE.parent / "e2e")]
import client as protocol  # noqa: E402
import scripts  # noqa: E402

protocol.SCRIPTS.update(scripts.SCRIPTS)


@pytest.fixture(scope="session")
def plain_server():
    running = protocol.Server(max_model_len=4096)
    yield running
    assert running.stop() == 0


@pytest.fixture
def faultless_server(tmp_path):
    """For requests made by chance: their temperatures, penalties and allowed tokens reach every token of the
    vocabulary, and here none of them fails on purpose."""
    running = protocol.Server(max_model_len=4096, faults=0, batch_dir=tmp_path / "batches")
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="session")
def tool_server():
    """A token is a byte here, so that the prompts of clients that explain a schema in words are long."""
    running = protocol.Server(max_model_len=16384, num_blocks=4096, chat_template=scripts.TEMPLATE)
    yield running
    assert running.stop() == 0


@pytest.fixture
def server(plain_server):
    yield plain_server
    assert plain_server.alive()


@pytest.fixture
def url(tool_server):
    """The base URL of a server with tools, which must have survived the test."""
    yield f"http://127.0.0.1:{tool_server.port}/v1"
    assert tool_server.alive()


def serve(model, name, folder):
    """A fixture's generator: the base URL of the real server on a real model."""
    import pagoda_server

    path = pagoda_server.model_path(model)
    if not pagoda_server.binary().exists():
        pytest.skip(f"no binary at {pagoda_server.binary()}; run make build")
    if not path.exists():
        pytest.skip(f"no model at {path}; run scripts/fetch_model {name}")
    running = pagoda_server.Server(folder / "log", model=path).wait_ready()
    yield running.url + "/v1"
    assert running.stop() == 0, running.log()


@pytest.fixture(scope="session")
def model_url(tmp_path_factory):
    """Grammars need the tokenizer of a real model."""
    yield from serve("smollm2-135m-instruct-q4_1.gguf", "smollm2-135m", tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def embeddings_url(tmp_path_factory):
    yield from serve("all-minilm-l6-v2", "minilm", tmp_path_factory.mktemp("embeddings"))
