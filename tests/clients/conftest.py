"""Fixture: a server over the scripted model, whose answers the tests know."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "protocol"))
import client as protocol  # noqa: E402


@pytest.fixture(scope="session")
def server():
    running = protocol.Server(max_model_len=4096)
    yield running
    assert running.stop() == 0


@pytest.fixture(autouse=True)
def survives(server):
    yield
    assert server.alive()
