// Tokens per second with and without speculation on the same prompts, round by round in turn, and the share
// of drafts that were right. The tokens must be equal. bench/README.md explains the figures.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"
#include "cli/runtime.h"
#include "engine/engine.h"

namespace pagoda::bench {
namespace {

using SteadyTime = std::chrono::steady_clock;

struct Options {
  cli::EngineFlags flags;
  std::vector<std::string> configs{"off", "ngram"};
  std::string prompt_path;
  bool chat = false;
  int batch = 1;
  int rows = engine::kVerifyRows;
  int rounds = 5;
  int64_t max_tokens = 256;
  float temperature = 0;
  bool print = false;
};

// One way to run: a model with an engine of its own.
struct Contender {
  std::string config;
  std::unique_ptr<cli::Runtime> runtime;
  std::vector<double> tokens_per_s;
  engine::EngineStats stats;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Result<std::vector<TokenId>> encode_prompt(const Options& options, cli::Runtime& runtime) {
  std::ifstream file(options.prompt_path);
  if (!file) return make_error(ErrorKind::kIo, fmt::format("cannot read {}", options.prompt_path));
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!options.chat) return runtime.tokenizer()->encode(text, {});
  const auto chat_template = runtime.take_chat_template();
  if (!chat_template) return make_error(ErrorKind::kInvalidArgument, "the model has no chat template");
  const model::Checkpoint& checkpoint = runtime.plan().checkpoint;
  nlohmann::ordered_json context;
  context["messages"] = {{{"role", "user"}, {"content", text}}};
  context["tools"] = context["documents"] = nullptr;
  context["add_generation_prompt"] = true;
  context["bos_token"] = checkpoint.bos_token;
  context["eos_token"] = checkpoint.eos_token;
  return PAGODA_TRY(text::render_chat(*chat_template, *runtime.tokenizer(), context.dump())).ids;
}

// Runs `batch` equal prompts with seeds of their own; the time counts from the first token on.
std::vector<std::vector<TokenId>> run_round(const Options& options, const std::vector<TokenId>& prompt,
                                            int round, Contender& contender) {
  engine::Engine& engine = contender.runtime->engine();
  std::vector<std::vector<TokenId>> outputs(static_cast<size_t>(options.batch));
  int started = 0, ended = 0;
  for (int i = 0; i < options.batch; ++i) {
    engine::EngineRequest request;
    request.id = RequestId{static_cast<uint64_t>(round * options.batch + i + 1)};
    request.prompt = prompt;
    request.max_tokens = options.max_tokens;
    request.sampling.temperature = options.temperature;
    request.sampling.seed = request.id.value;
    for (const TokenId id : contender.runtime->plan().checkpoint.config.eos)
      request.sampling.stop_token_ids.push_back(id);
    request.sink = [&,
                    &output = outputs[static_cast<size_t>(i)]](std::span<const engine::EngineEvent> events) {
      for (const auto& event : events) {
        if (event.has_token && output.empty()) ++started;
        if (event.has_token) output.push_back(event.token.token);
        if (event.finish != engine::FinishReason::kNone) ++ended;
      }
    };
    const auto accepted = engine.submit(std::move(request));
    PAGODA_CHECK(accepted, "{}", accepted.error().message);
  }
  while (started < options.batch) engine.step();
  const auto tokens = [&] {
    size_t sum = 0;
    for (const auto& output : outputs) sum += output.size();
    return static_cast<double>(sum);
  };
  const double before = tokens();
  const auto start = SteadyTime::now();
  while (ended < options.batch) engine.step();
  const double seconds = std::chrono::duration<double>(SteadyTime::now() - start).count();
  contender.tokens_per_s.push_back((tokens() - before) / seconds);
  return outputs;
}

Result<void> run(const Options& options) {
  const SteadyClock clock;
  std::vector<Contender> contenders;
  for (const std::string& config : options.configs) {
    cli::EngineFlags flags = options.flags;
    flags.speculative_config = config;
    cli::RunPlan plan = PAGODA_TRY(cli::make_run_plan(flags));
    plan.engine.speculation.max_rows = options.rows;
    plan.decoder.max_logit_rows = engine::max_logit_rows(plan.engine);
    auto runtime = PAGODA_TRY(cli::Runtime::load(std::move(plan), "", {}, clock));
    contenders.push_back({config, std::move(runtime), {}, {}});
  }
  const std::vector<TokenId> prompt = PAGODA_TRY(encode_prompt(options, *contenders.front().runtime));
  size_t length = 0;
  for (int round = 0; round <= options.rounds; ++round) {
    std::vector<std::vector<TokenId>> expected;
    for (size_t i = 0; i < contenders.size(); ++i) {
      // Whoever comes second must not always be the same.
      Contender& contender = contenders[(i + static_cast<size_t>(round)) % contenders.size()];
      const auto outputs = run_round(options, prompt, round, contender);
      if (expected.empty()) expected = outputs;
      PAGODA_CHECK(outputs == expected, "{} gives other tokens", contender.config);
      if (round == 0) contender.tokens_per_s.clear();  // touches all memory
    }
    length = expected.front().size();
    if (round == 0 && options.print) {
      fmt::print("{}\n",
                 PAGODA_TRY(contenders.front().runtime->tokenizer()->decode(expected.front(), false)));
    }
  }
  fmt::print("{} prompt tokens, {} output tokens, batch {}, temperature {}\n", prompt.size(), length,
             options.batch, options.temperature);
  for (const Contender& c : contenders) {
    const engine::EngineStats stats = c.runtime->engine().stats();
    std::vector<double> ratios;
    for (size_t i = 0; i < c.tokens_per_s.size(); ++i) {
      ratios.push_back(c.tokens_per_s[i] / contenders.front().tokens_per_s[i]);
    }
    fmt::print(
        "{:>8.1f} tokens/s  x {:.3f} (rounds {:.3f} to {:.3f})  {:>5} drafts, {} of {} tokens right  {}\n",
        median(c.tokens_per_s), median(ratios), *std::ranges::min_element(ratios),
        *std::ranges::max_element(ratios), stats.drafts, stats.accepted_tokens, stats.draft_tokens, c.config);
  }
  return {};
}

}  // namespace
}  // namespace pagoda::bench

int main(int argc, char** argv) {
  using namespace pagoda;
  bench::Options options;
  CLI::App app("Tokens per second with and without speculation.");
  app.add_option("model", options.flags.model, "GGUF file or Hugging Face folder")->required();
  app.add_option("prompt", options.prompt_path, "file with the prompt")->required();
  app.add_option("--config", options.configs, "values of --speculative-config; the first is the base");
  app.add_flag("--chat", options.chat, "send the prompt as a user message");
  app.add_option("--batch", options.batch, "sequences that decode together");
  app.add_option("--rows", options.rows, "of a step with drafts");
  app.add_option("--rounds", options.rounds, "of each figure; the median counts");
  app.add_option("--max-tokens", options.max_tokens, "tokens to generate");
  app.add_option("--temperature", options.temperature, "0: greedy");
  app.add_option("--threads", options.flags.threads, "compute threads");
  app.add_flag("--print", options.print, "show the first output");
  CLI11_PARSE(app, argc, argv);
  options.flags.max_model_len = "4096";
  options.flags.kv_cache_memory_bytes = "512M";
  if (const auto done = bench::run(options); !done) {
    fmt::print(stderr, "speculation_bench: {}\n", done.error().message);
    return 1;
  }
  return 0;
}
