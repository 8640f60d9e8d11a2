"""Fixtures: a server that most tests share, and a factory for tests that end or overload theirs."""
import pytest

import pagoda_server


@pytest.fixture(scope="session", autouse=True)
def prerequisites():
    if not pagoda_server.binary().exists():
        pytest.skip(f"no binary at {pagoda_server.binary()}; run make build")
    if not pagoda_server.model_path().exists():
        pytest.skip(f"no model at {pagoda_server.model_path()}; run scripts/fetch_model smollm2-135m")


@pytest.fixture(scope="session")
def shared_server(prerequisites, tmp_path_factory):
    running = pagoda_server.Server(tmp_path_factory.mktemp("server") / "log").wait_ready()
    yield running
    assert running.stop() == 0, running.log()


@pytest.fixture
def server(shared_server, request):
    """The shared server, which must have survived the test."""
    request.node.server_logs = [shared_server.log_path]
    yield shared_server
    assert shared_server.process.poll() is None, "the server died during this test"


@pytest.fixture
def start_server(prerequisites, tmp_path, request):
    """start_server("--flag", ..., model=PATH) gives a server of the test's own."""
    started = []
    request.node.server_logs = []

    def start(*arguments, model=None):
        log_path = tmp_path / f"log{len(started)}"
        request.node.server_logs.append(log_path)
        running = pagoda_server.Server(log_path, *arguments, model=model)
        started.append(running)
        return running.wait_ready()

    yield start
    for running in started:
        if running.process.poll() is None:
            running.kill()


@pytest.fixture
def client(server):
    return server.client()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for path in getattr(item, "server_logs", []):
            tail = path.read_text(errors="replace")[-8000:] if path.exists() else "(no log)"
            report.sections.append((f"end of the server's log {path}", tail))
