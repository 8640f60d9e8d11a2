"""What an operator relies on: health, models, metrics, draining, start-up errors, the README's commands."""
import json
import re
import shutil
import struct
import subprocess
import threading
import time

import httpx
import pytest

from pagoda_server import MODEL_NAME, ROOT, binary, model_path

CODER = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
HISTOGRAMS = """e2e_request_latency_seconds time_to_first_token_seconds inter_token_latency_seconds
time_per_output_token_seconds request_queue_time_seconds request_prefill_time_seconds
request_decode_time_seconds request_inference_time_seconds request_prompt_tokens request_generation_tokens
request_max_num_generation_tokens request_params_n request_params_max_tokens iteration_tokens_total""".split()
COUNTERS = """prompt_tokens_total generation_tokens_total request_success_total num_preemptions_total
prefix_cache_queries_total prefix_cache_hits_total""".split()
GAUGES = """num_requests_running num_requests_waiting kv_cache_usage_perc gpu_cache_usage_perc
cache_config_info""".split()
# The bucket bounds that vLLM's published dashboard was made for.
BUCKETS = {
    "e2e_request_latency_seconds": [.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480,
                                    960, 1920, 7680],
    "inter_token_latency_seconds": [.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10,
                                    20, 40, 80],
    "time_to_first_token_seconds": [.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10,
                                    20, 40, 80, 160, 640, 2560],
}


def test_health_routes(server):
    for path in ("/health", "/health/live", "/health/ready"):
        assert httpx.get(server.url + path).status_code == 200
    assert re.match(r"\d+\.\d+", httpx.get(server.url + "/version").json()["version"])


def test_models(client):
    models = list(client.models.list())
    assert [model.id for model in models] == [MODEL_NAME]
    assert models[0].max_model_len == 8192
    assert client.models.retrieve(MODEL_NAME).id == MODEL_NAME
    # The client escapes what RFC 3986 wants escaped, as the slash of "org/model".
    assert httpx.get(f"{client.base_url}models/{MODEL_NAME.replace('-', '%2D')}").json()["id"] == MODEL_NAME


def metric_value(text, name):
    """The sum over the label sets of one sample name."""
    pattern = re.compile(rf"^{re.escape(name)}(?:\{{[^}}]*\}})? (\S+)$", re.MULTILINE)
    return sum(float(value) for value in pattern.findall(text))


def test_metrics_have_the_names_that_dashboards_use(server, client):
    client.completions.create(model=MODEL_NAME, prompt="One, two,", max_tokens=4,
                              extra_body={"ignore_eos": True})
    text = server.metrics()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    expected = {name: "histogram" for name in HISTOGRAMS}
    expected |= {name: "counter" for name in COUNTERS} | {name: "gauge" for name in GAUGES}
    found = {name: kinds.get("vllm:" + name) for name in expected}
    assert found == expected
    for name, bounds in BUCKETS.items():
        pattern = rf'^vllm:{name}_bucket\{{[^}}]*le="([^"]+)"[^}}]*\}}'
        exposed = {float(bound) for bound in re.findall(pattern, text, re.MULTILINE)}
        assert set(bounds) <= exposed, f"{name} lacks {sorted(set(bounds) - exposed)}"
    labels = re.search(r"^vllm:generation_tokens_total\{([^}]*)\}", text, re.MULTILINE).group(1)
    assert f'model_name="{MODEL_NAME}"' in labels and "engine=" in labels


def test_metrics_count_tokens(server, client):
    before = server.metrics()
    usage = client.completions.create(model=MODEL_NAME, prompt="Count these tokens", max_tokens=9,
                                      extra_body={"ignore_eos": True}).usage
    names = {"vllm:prompt_tokens_total": usage.prompt_tokens, "vllm:generation_tokens_total": 9,
             "vllm:request_success_total": 1, "vllm:e2e_request_latency_seconds_count": 1}
    deadline = time.monotonic() + 5  # the request's end is reported just after the client has its answer
    while True:
        after = server.metrics()
        grown = {name: metric_value(after, name) - metric_value(before, name) for name in names}
        if grown == names or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    assert grown == names


def wait_for_status(url, status):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if httpx.get(url).status_code == status:
            return True
        time.sleep(0.02)
    return False


def test_sigterm_lets_streams_finish(start_server):
    draining = start_server()
    tokens = 200
    started = [threading.Event() for _ in range(4)]
    results = [None] * len(started)

    def stream(number):
        count, done = 0, False
        body = {"model": MODEL_NAME, "prompt": f"Story {number}:", "max_tokens": tokens, "stream": True,
                "ignore_eos": True, "stream_options": {"include_usage": True}}
        with httpx.stream("POST", draining.url + "/v1/completions", json=body, timeout=120) as answer:
            for line in answer.iter_lines():
                if line == "data: [DONE]":
                    done = True
                elif line.startswith("data: "):
                    usage = json.loads(line[6:]).get("usage") or {}
                    count = usage.get("completion_tokens", count)
                    started[number].set()
        results[number] = (count, done)

    threads = [threading.Thread(target=stream, args=(number,)) for number in range(len(started))]
    for thread in threads:
        thread.start()
    assert all(event.wait(60) for event in started)
    assert results == [None] * len(started), "the streams ended before the signal: nothing is tested"
    draining.terminate()
    # A load balancer sees the drain, and new work is told to go elsewhere.
    assert wait_for_status(draining.url + "/health", 503)
    assert httpx.get(draining.url + "/health/live").status_code == 200
    refused = httpx.post(draining.url + "/v1/completions", json={"prompt": "x", "max_tokens": 1})
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
    assert refused.headers["Retry-After"]
    for thread in threads:
        thread.join(120)
    assert results == [(tokens, True)] * len(started)
    assert draining.process.wait(60) == 0, draining.log()


def serve_and_fail(*arguments):
    command = [binary(), "serve", *arguments, "--port", "0"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_truncated_model_file_is_refused_in_one_line(tmp_path):
    broken = tmp_path / "broken.gguf"
    shutil.copyfile(model_path(), broken)
    size = broken.stat().st_size // 2
    with open(broken, "r+b") as file:
        file.truncate(size)
    run = serve_and_fail(broken)
    assert run.returncode == 1
    lines = [line for line in (run.stdout + run.stderr).splitlines() if line.strip()]
    assert len(lines) == 1, lines
    assert str(broken) in lines[0]
    assert re.search(r"token_embd|output|blk\.\d+\.", lines[0]), "no tensor named"
    assert re.search(r"offset \d+", lines[0]), "no offset named"


@pytest.mark.parametrize("tensor", ["model.norm.weight", "model.layers.0.mlp.up_proj.weight"])
def test_weight_that_is_no_number_is_refused_in_one_line(tmp_path, tensor):
    folder = tmp_path / "model"
    shutil.copytree(ROOT / "tests" / "data" / "golden" / "tiny" / "llama-tied-f32", folder)
    weights = folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    (size,) = struct.unpack_from("<Q", data)
    begin = json.loads(data[8:8 + size])[tensor]["data_offsets"][0]
    struct.pack_into("<f", data, 8 + size + begin, float("nan"))
    weights.write_bytes(data)
    run = serve_and_fail(folder)
    assert run.returncode == 1
    lines = [line for line in (run.stdout + run.stderr).splitlines() if line.strip()]
    assert len(lines) == 1, lines
    assert str(folder) in lines[0] and tensor in lines[0] and "offset" in lines[0]


def test_missing_model_file_is_refused_in_one_line(tmp_path):
    absent = tmp_path / "absent.gguf"
    run = serve_and_fail(absent)
    assert run.returncode == 1
    lines = [line for line in (run.stdout + run.stderr).splitlines() if line.strip()]
    assert len(lines) == 1 and str(absent) in lines[0], lines


def readme_curl_commands():
    blocks = re.findall(r"```(?:sh|bash)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    # A command ends with its line, unless that ends in a backslash or inside of quotes.
    command = re.compile(r"^curl (?:\\\n|'[^']*'|[^'\n])*", re.MULTILINE)
    return [found for block in blocks for found in command.findall(block)]


def model_for(command):
    if '"suffix"' not in command:
        return None
    if not model_path(CODER).exists():
        pytest.skip(f"no {CODER}; run scripts/fetch_model qwen-coder-0.5b")
    return model_path(CODER)


@pytest.mark.parametrize("number", range(len(readme_curl_commands())))
def test_readme_curl_commands_work(start_server, number):
    command = readme_curl_commands()[number]
    assert "localhost:8000" in command
    running = start_server(model=model_for(command))
    command = command.replace("localhost:8000", f"127.0.0.1:{running.port}")
    command = command.replace("curl ", "curl -sS --fail ", 1)
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert '"error"' not in run.stdout
    assert "choices" in run.stdout
