#include "cli/eval_worker.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <memory>
#include <mutex>

#include "cli/eval_link.h"
#include "cli/eval_score.h"
#include "cli/eval_text.h"
#include "cli/runtime.h"
#include "service/service.h"

namespace pagoda::cli {
namespace {

using nlohmann::json;

// Prompts that are answered at the same time, and the tokens that each of them may hold.
constexpr int64_t kPrompts = 16, kPromptTokens = 1024;

// The highest resident size so far, in bytes.
uint64_t peak_memory_bytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  }
  return 0;
}

std::vector<TokenId> to_tokens(const json& ids) {
  std::vector<TokenId> tokens;
  for (const json& id : ids) tokens.push_back({id.get<int32_t>()});
  return tokens;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

class Worker {
 public:
  Worker(std::unique_ptr<Runtime> runtime, JsonSocket& socket)
      : runtime_(std::move(runtime)),
        socket_(socket),
        max_len_(runtime_->plan().engine.max_model_len),
        chunk_(runtime_->plan().decoder.max_tokens),
        stride_(runtime_->model().logits_stride()),
        sequence_(runtime_->model(), max_len_) {}

  Result<json> start();
  Result<json> answer(const json& request);

 private:
  int64_t step() const { return std::min(kEvalStepTokens, chunk_); }
  json logits(const json& request);
  json run(const json& request);
  Result<json> choices(const json& request);
  Result<json> complete(const json& request);

  // Runs tokens of any number; leaves the logits of the last.
  void run_prompt(int64_t first, std::span<const TokenId> tokens);
  double continuation_logprob(std::span<const TokenId> tokens, size_t context);
  std::span<const float> row(int64_t index) const {
    return {logits_ + index * stride_, static_cast<size_t>(runtime_->model().config().vocab_size)};
  }

  std::unique_ptr<Runtime> runtime_;
  JsonSocket& socket_;
  const int64_t max_len_, chunk_, stride_;
  SingleSequence sequence_;
  float* logits_ = nullptr;          // [step()][stride_], shared with the parent
  std::vector<TokenId> context_;     // what sequence_ holds for choices()
  std::vector<float> context_last_;  // and the logits behind it
};

Result<json> Worker::start() {
  const auto bytes = static_cast<size_t>(step() * stride_) * sizeof(float);
  if (ftruncate(kEvalLogitsFd, static_cast<off_t>(bytes)) != 0) {
    return make_error(ErrorKind::kIo, "no memory for the logits");
  }
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, kEvalLogitsFd, 0);
  if (mapped == MAP_FAILED) return make_error(ErrorKind::kIo, "mapping the logits failed");
  logits_ = static_cast<float*>(mapped);
  const model::Decoder& model = runtime_->model();
  return json{{"vocab", model.config().vocab_size},
              {"stride", stride_},
              {"step", step()},
              {"weight_bytes", model.weight_bytes()},
              {"layout", model.layout_summary()}};
}

Result<json> Worker::answer(const json& request) {
  const auto op = request.at("op").get<std::string>();
  if (op == "logits") return logits(request);
  if (op == "run") return run(request);
  if (op == "choices") return choices(request);
  if (op == "complete") return complete(request);
  return make_error(ErrorKind::kInternal, "unknown op " + op);
}

json Worker::logits(const json& request) {
  sequence_.run(request.at("position").get<int64_t>(), to_tokens(request.at("tokens")), logits_);
  context_.clear();
  return json::object();
}

void Worker::run_prompt(int64_t first, std::span<const TokenId> tokens) {
  while (!tokens.empty()) {
    const auto part = tokens.first(static_cast<size_t>(std::min(chunk_, std::ssize(tokens))));
    sequence_.run_last(first, part, logits_);
    first += std::ssize(part);
    tokens = tokens.subspan(part.size());
  }
}

json Worker::run(const json& request) {
  const auto prompt = to_tokens(request.at("prompt"));
  const auto new_tokens = request.at("new_tokens").get<int64_t>();
  std::vector<double> prefill, decode;
  const auto seconds_of = [](auto work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  for (int64_t round = 0; round < request.at("rounds").get<int64_t>(); ++round) {
    prefill.push_back(seconds_of([&] { run_prompt(0, prompt); }));
    decode.push_back(seconds_of([&] {
      for (int64_t i = 0; i < new_tokens; ++i) {
        const auto likeliest = std::ranges::max_element(row(0)) - row(0).begin();
        const TokenId token{static_cast<int32_t>(likeliest)};
        run_prompt(std::ssize(prompt) + i, {&token, 1});
      }
    }));
  }
  context_.clear();
  return {{"prefill", static_cast<double>(prompt.size()) / median(prefill)},
          {"decode", static_cast<double>(new_tokens) / median(decode)},
          {"memory_bytes", peak_memory_bytes()}};
}

// Of tokens[context..], given those before.
double Worker::continuation_logprob(std::span<const TokenId> tokens, size_t context) {
  const auto before = tokens.first(context), after = tokens.subspan(context);
  if (!std::ranges::equal(before, context_)) {
    run_prompt(0, before);
    context_.assign(before.begin(), before.end());
    context_last_.assign(row(0).begin(), row(0).end());
  }
  double sum = token_logprob(context_last_, after.front());
  for (size_t at = 0; at + 1 < after.size();) {
    const auto part = after.subspan(at, std::min(static_cast<size_t>(step()), after.size() - 1 - at));
    sequence_.run(static_cast<int64_t>(context + at), part, logits_);
    for (size_t i = 0; i < part.size(); ++i) {
      sum += token_logprob(row(static_cast<int64_t>(i)), after[at + i + 1]);
    }
    at += part.size();
  }
  return sum;
}

// The boundary is lm-evaluation-harness's: the whole is encoded, and what is longer than the context alone is
// the continuation. Context and continuation come as one text, so that a token may reach over the boundary.
Result<json> Worker::choices(const json& request) {
  const text::Tokenizer& tokenizer = *runtime_->tokenizer();
  const auto leading = PAGODA_TRY(leading_token(tokenizer));
  const auto context = request.at("context").get<std::string>();
  const auto encode = [&](const std::string& text) -> Result<std::vector<TokenId>> {
    auto ids =
        PAGODA_TRY(tokenizer.encode(text, {.add_special_tokens = false, .parse_special_tokens = false}));
    if (leading) ids.insert(ids.begin(), *leading);
    return ids;
  };
  const auto alone = PAGODA_TRY(encode(context));
  json sums = json::array();
  for (const json& continuation : request.at("continuations")) {
    const auto whole = PAGODA_TRY(encode(context + continuation.get<std::string>()));
    if (std::ssize(whole) > max_len_) {
      return json{{"unusable", fmt::format("{} tokens, but --max-model-len is {}", whole.size(), max_len_)}};
    }
    const size_t boundary = std::min(alone.size(), whole.size() - 1);
    if (boundary == 0) return json{{"unusable", "there is nothing before the choice"}};
    sums.push_back(continuation_logprob(whole, boundary));
  }
  return json{{"logprobs", sums}};
}

Result<json> Worker::complete(const json& request) {
  const model::Checkpoint& checkpoint = runtime_->plan().checkpoint;
  const SteadyClock clock;
  service::ServiceOptions options;
  options.model_name = checkpoint.name;
  options.eos = checkpoint.config.eos;
  options.vocab_size = checkpoint.config.vocab_size;
  service::Service service(runtime_->engine(), runtime_->tokenizer(), std::nullopt, options, clock);
  runtime_->engine().start();
  const json& prompts = request.at("prompts");
  std::vector<std::string> texts(prompts.size());
  std::mutex mutex;
  std::condition_variable changed;
  size_t running = 0;
  const auto finish = [&](json line) {
    const std::lock_guard lock(mutex);
    socket_.send(line);
    --running;
    changed.notify_one();
  };
  for (size_t i = 0; i < prompts.size(); ++i) {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return running < static_cast<size_t>(kPrompts); });
      ++running;
    }
    service::GenerationRequest generation;
    generation.prompt = service::TextPrompt{prompts[i].get<std::string>(), true};
    generation.default_max_tokens = request.at("max_tokens").get<int64_t>();
    generation.sampling.temperature = 0;
    generation.stop = request.at("stop").get<std::vector<std::string>>();
    service.generate(
        std::move(generation),
        [&, i](Result<std::shared_ptr<service::Generation>> accepted) {
          if (!accepted) finish({{"index", i}, {"unusable", accepted.error().message}});
        },
        [&, i](const service::GenerationEvent& event) {
          if (const auto* choice = std::get_if<service::ChoiceEvent>(&event)) {
            texts[i] += choice->text;
          } else if (const auto* end = std::get_if<service::EndEvent>(&event)) {
            if (end->error) return finish({{"index", i}, {"unusable", end->error->message}});
            finish({{"index", i}, {"text", texts[i]}});
          }
        });
  }
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return running == 0; });
  }
  runtime_->engine().stop();
  return json::object();
}

Result<std::unique_ptr<Runtime>> load(const EngineFlags& flags, const Clock& clock) {
  RunPlan plan = PAGODA_TRY(make_run_plan(flags));
  plan.decoder.max_logit_rows = std::max(plan.decoder.max_logit_rows, kEvalStepTokens);
  if (!plan.kv_bytes) {
    // Measured memory is the weights' and that of the work at hand, not that of a server's cache.
    const model::ModelConfig& config = plan.checkpoint.config;
    const size_t block =
        kv_block_bytes({config.num_layers, config.num_kv_heads, config.head_dim, plan.decoder.kv_dtype});
    const int64_t tokens = std::max(plan.engine.max_model_len, kPrompts * kPromptTokens);
    plan.kv_bytes = static_cast<uint64_t>(tokens / kKvBlockTokens + 1) * block;
  }
  return Runtime::load(std::move(plan), {}, {}, clock);
}

}  // namespace

Result<void> run_eval_worker(const EngineFlags& flags) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  JsonSocket socket(kEvalSocketFd);
  const SteadyClock clock;
  auto runtime = load(flags, clock);
  if (!runtime) {
    socket.send({{"error", runtime.error().message}});
    return {};
  }
  Worker worker(std::move(*runtime), socket);
  Result<json> answer = worker.start();
  for (;;) {
    if (!answer) answer = json{{"error", answer.error().message}};
    if (!socket.send(*answer)) return {};
    json request;
    if (socket.receive(request, -1) != JsonSocket::Got::kValue) return {};
    answer = worker.answer(request);
  }
}

}  // namespace pagoda::cli
