// How far the fast arithmetic is from --dtype float32 on the same weights and a text: mean KL divergence,
// top-1 tokens that change, perplexity. bench/README.md explains the figures.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "cli/runtime.h"
#include "tensor/aligned_buffer.h"
#include "tensor/kv_storage.h"
#include "text/tokenizer.h"

namespace pagoda::bench {
namespace {

// Of one forward step; later steps of a window attend to the earlier ones.
constexpr int64_t kStepTokens = 128;

struct Options {
  cli::EngineFlags flags;
  std::vector<std::string> precisions{"int8", "mixed", "int16"};
  std::string reference;  // the model in float32; empty: the same
  std::string text_path;
  int64_t window = 1024, max_tokens = 4096;
};

// A model with room for one window.
struct Contender {
  std::string name;
  std::unique_ptr<ComputePool> pool;
  std::unique_ptr<model::Decoder> model;
  KvStorage kv;
  std::vector<BlockId> blocks;
  double kl = 0, nll = 0;
  int64_t changes = 0;
};

Result<Contender> load(const Options& options, const std::string& name) {
  cli::EngineFlags flags = options.flags;
  (name == "float32" ? flags.dtype : flags.activation_precision) = name;
  if (name == "float32" && !options.reference.empty()) {
    flags.model = options.reference;
    flags.quantization = "auto";
  }
  cli::RunPlan plan = PAGODA_TRY(cli::make_run_plan(flags));
  plan.decoder.max_tokens = plan.decoder.max_logit_rows = kStepTokens;
  Contender result;
  result.name = name;
  result.pool = std::make_unique<ComputePool>(plan.threads);
  result.model = PAGODA_TRY(model::load_decoder(plan.checkpoint, plan.decoder, *result.pool));
  for (int64_t i = 0; i * kKvBlockTokens < options.window; ++i) {
    result.blocks.push_back(BlockId{static_cast<int32_t>(i)});
  }
  result.kv = KvStorage(result.model->kv_shape(), static_cast<int>(result.blocks.size()));
  return result;
}

Result<std::vector<TokenId>> read_tokens(const Options& options, const model::Checkpoint& checkpoint) {
  std::ifstream file(options.text_path);
  if (!file) return make_error(ErrorKind::kIo, fmt::format("cannot read {}", options.text_path));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto tokenizer = PAGODA_TRY(text::load_tokenizer(checkpoint.tokenizer_json));
  auto tokens = PAGODA_TRY(tokenizer->encode(text, {}));
  tokens.resize(static_cast<size_t>(std::min(options.max_tokens, std::ssize(tokens))));
  return tokens;
}

// Logits of a window's tokens from `first` on, [tokens.size(), logits_stride()].
void run_step(Contender& contender, int64_t first, std::span<const TokenId> tokens, float* logits) {
  kernels::AttentionSequence sequence;
  sequence.num_tokens = std::ssize(tokens);
  sequence.first_position = first;
  sequence.block_table = contender.blocks;
  std::vector<int64_t> rows(tokens.size());
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
  contender.model->forward({tokens, {&sequence, 1}, rows}, contender.kv, logits);
}

std::vector<double> log_softmax(std::span<const float> row) {
  const double largest = *std::ranges::max_element(row);
  double sum = 0;
  for (const float value : row) sum += std::exp(value - largest);
  std::vector<double> result(row.begin(), row.end());
  for (double& value : result) value -= largest + std::log(sum);
  return result;
}

size_t argmax_of(const std::vector<double>& row) {
  return static_cast<size_t>(std::ranges::max_element(row) - row.begin());
}

// `next` is the token that the text goes on with, or an invalid one at the end of a window.
void compare_row(const std::vector<double>& exact, const std::vector<double>& other, TokenId next,
                 Contender& contender) {
  for (size_t v = 0; v < exact.size(); ++v) contender.kl += std::exp(exact[v]) * (exact[v] - other[v]);
  contender.changes += argmax_of(exact) != argmax_of(other);
  if (next.value >= 0) contender.nll -= other[static_cast<size_t>(next.value)];
}

Result<void> run(const Options& options) {
  std::vector<Contender> contenders;
  contenders.push_back(PAGODA_TRY(load(options, "float32")));
  for (const std::string& name : options.precisions) contenders.push_back(PAGODA_TRY(load(options, name)));
  const model::Checkpoint checkpoint = PAGODA_TRY(model::open_checkpoint(options.flags.model));
  const std::vector<TokenId> tokens = PAGODA_TRY(read_tokens(options, checkpoint));
  const model::Decoder& exact = *contenders.front().model;
  const auto vocab = static_cast<size_t>(exact.config().vocab_size);
  const auto stride = static_cast<size_t>(exact.logits_stride());
  std::vector<AlignedBuffer> logits;
  for (size_t i = 0; i < contenders.size(); ++i) {
    logits.emplace_back(static_cast<size_t>(kStepTokens) * stride * sizeof(float));
  }
  int64_t scored = 0;
  for (int64_t at = 0; at < std::ssize(tokens);) {
    const int64_t in_window = at % options.window;
    const int64_t count = std::min({kStepTokens, options.window - in_window, std::ssize(tokens) - at});
    const auto part = std::span(tokens).subspan(static_cast<size_t>(at), static_cast<size_t>(count));
    for (size_t i = 0; i < contenders.size(); ++i) {
      run_step(contenders[i], in_window, part, logits[i].as<float>());
    }
    for (int64_t row = 0; row < count; ++row) {
      const bool last = at + row + 1 == std::ssize(tokens) || in_window + row + 1 == options.window;
      const TokenId next = last ? TokenId{-1} : tokens[static_cast<size_t>(at + row + 1)];
      const auto row_of = [&](size_t i) {
        return log_softmax({logits[i].as<float>() + static_cast<size_t>(row) * stride, vocab});
      };
      const auto reference = row_of(0);
      for (size_t i = 0; i < contenders.size(); ++i) compare_row(reference, row_of(i), next, contenders[i]);
      scored += !last;
    }
    at += count;
  }
  const auto count = static_cast<double>(tokens.size());
  const double exact_nll = contenders.front().nll;
  fmt::print("{} tokens in windows of {}; perplexity {:.4f} in float32\n", tokens.size(), options.window,
             std::exp(exact_nll / static_cast<double>(scored)));
  for (const Contender& c : std::span(contenders).subspan(1)) {
    fmt::print("{:<6} mean KL {:.6f}, top-1 changes {:.2f} %, perplexity x {:.5f}  ({})\n", c.name,
               c.kl / count, 100 * static_cast<double>(c.changes) / count,
               std::exp((c.nll - exact_nll) / static_cast<double>(scored)), c.model->layout_summary());
  }
  return {};
}

}  // namespace
}  // namespace pagoda::bench

int main(int argc, char** argv) {
  using namespace pagoda;
  bench::Options options;
  CLI::App app("What the fast arithmetic changes in the model's predictions of a text.");
  app.add_option("model", options.flags.model, "GGUF file or Hugging Face folder")->required();
  app.add_option("text", options.text_path, "UTF-8 text to predict")->required();
  app.add_option("--reference", options.reference,
                 "model that runs in float32, such as the one that MODEL is quantised from; default: MODEL");
  app.add_option("--quantization", options.flags.quantization, "of MODEL, as in pagoda serve");
  app.add_option("--precision", options.precisions, "values of --activation-precision");
  app.add_option("--window", options.window, "tokens that see each other")->check(CLI::Range(2, 32768));
  app.add_option("--max-tokens", options.max_tokens, "of the text")->check(CLI::Range(2, 1 << 20));
  app.add_option("--threads", options.flags.threads, "compute threads");
  CLI11_PARSE(app, argc, argv);
  options.flags.max_model_len = std::to_string(std::max<int64_t>(options.window, 64));
  if (const auto done = bench::run(options); !done) {
    fmt::print(stderr, "accuracy_bench: {}\n", done.error().message);
    return 1;
  }
  return 0;
}
