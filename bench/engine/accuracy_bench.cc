// How far the fast arithmetic is from --dtype float32 on the same weights and a text: mean KL divergence,
// top-1 tokens that change, perplexity. bench/README.md explains the figures.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/eval_score.h"
#include "cli/eval_text.h"
#include "cli/eval_worker.h"
#include "cli/runtime.h"
#include "tensor/aligned_buffer.h"

namespace pagoda::bench {
namespace {

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
  std::unique_ptr<cli::SingleSequence> sequence;
  AlignedBuffer logits;  // of one step
  cli::TextScore score;

  std::span<const float> row(int64_t index) const {
    return {logits.as<float>() + index * model->logits_stride(),
            static_cast<size_t>(model->config().vocab_size)};
  }
};

Result<Contender> load(const Options& options, const std::string& name) {
  cli::EngineFlags flags = options.flags;
  (name == "float32" ? flags.dtype : flags.activation_precision) = name;
  if (name == "float32" && !options.reference.empty()) {
    flags.model = options.reference;
    flags.quantization = "auto";
  }
  cli::RunPlan plan = PAGODA_TRY(cli::make_run_plan(flags));
  plan.decoder.max_tokens = plan.decoder.max_logit_rows = cli::kEvalStepTokens;
  Contender result;
  result.name = name;
  result.pool = std::make_unique<ComputePool>(plan.threads);
  result.model = PAGODA_TRY(model::load_decoder(plan.checkpoint, plan.decoder, *result.pool));
  result.sequence = std::make_unique<cli::SingleSequence>(*result.model, options.window);
  result.logits = AlignedBuffer(static_cast<size_t>(cli::kEvalStepTokens * result.model->logits_stride()) *
                                sizeof(float));
  return result;
}

Result<std::vector<cli::TextStep>> read_steps(const Options& options) {
  const model::Checkpoint checkpoint = PAGODA_TRY(model::open_checkpoint(options.flags.model));
  const auto tokenizer = PAGODA_TRY(text::load_tokenizer(checkpoint.tokenizer_json));
  const std::string text = PAGODA_TRY(cli::read_eval_text(options.text_path));
  const auto tokens =
      PAGODA_TRY(cli::encode_eval_text(*tokenizer, text, options.max_tokens, options.text_path));
  return cli::cut_text(tokens, {.window = options.window,
                                .step = cli::kEvalStepTokens,
                                .bos = PAGODA_TRY(cli::leading_token(*tokenizer))});
}

Result<void> run(const Options& options) {
  const std::vector<cli::TextStep> steps = PAGODA_TRY(read_steps(options));
  std::vector<Contender> contenders;
  contenders.push_back(PAGODA_TRY(load(options, "float32")));
  for (const std::string& name : options.precisions) contenders.push_back(PAGODA_TRY(load(options, name)));
  for (const cli::TextStep& step : steps) {
    for (Contender& c : contenders) c.sequence->run(step.position, step.tokens, c.logits.as<float>());
    for (size_t i = 0; i < step.tokens.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      for (Contender& c : contenders) {
        c.score.add(cli::score_row(c.row(row), contenders.front().row(row), step.next[i]),
                    step.next[i].value >= 0);
      }
    }
  }
  const cli::TextScore& exact = contenders.front().score;
  fmt::print("{} tokens in windows of {}; perplexity {:.4f} in float32\n", exact.rows(), options.window,
             exact.perplexity());
  for (const Contender& c : std::span(contenders).subspan(1)) {
    fmt::print("{:<6} mean KL {:.6f}, p99 {:.6f}, top-1 changes {:.2f} %, perplexity x {:.5f}  ({})\n",
               c.name, c.score.kl_mean(), c.score.kl_p99(), 100 * (1 - c.score.top1_agreement()),
               c.score.perplexity() / exact.perplexity(), c.model->layout_summary());
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
