"""The server does what its own /openapi.json says, for requests that are made from that document."""

import hypothesis
import schemathesis
from schemathesis import checks

from client import SCRIPTS

EXAMPLES = 40  # of each route with a body


def without_stream(body):
    """Events are not JSON: the protocol tests look at their shape."""
    return {**body, "stream": False} if isinstance(body, dict) and "stream" in body else body


def test_document_is_kept(faultless_server):
    url = f"http://127.0.0.1:{faultless_server.port}"
    schema = schemathesis.openapi.from_url(url + "/openapi.json")
    seen, operations = {}, 0
    for result in schema.get_all_operations():
        operation = result.ok()
        operations += 1
        examples = EXAMPLES if operation.method.upper() == "POST" else 3

        @hypothesis.settings(
            max_examples=examples,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(case=operation.as_strategy())
        def check(case):
            case.body = without_stream(case.body)
            answer = case.call(base_url=url)
            seen[answer.status_code] = seen.get(answer.status_code, 0) + 1
            assert answer.status_code != 500, answer.text
            case.validate_response(
                answer,
                checks=[
                    checks.status_code_conformance,
                    checks.content_type_conformance,
                    checks.response_schema_conformance,
                ],
            )

        check()
    assert operations >= 20
    assert seen.get(200, 0) > 20 and seen.get(400, 0) > 20, seen
    assert faultless_server.alive()


def test_no_token_fails_on_purpose(faultless_server):
    for token in range(8):
        status, answer = faultless_server.complete("a", max_tokens=3, allowed_token_ids=[token])
        assert status == 200, answer
    for name in SCRIPTS:
        status, answer = faultless_server.complete("script:" + name, max_tokens=3)
        assert status == 200, answer
