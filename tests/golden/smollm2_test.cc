// SmolLM2-135M-Instruct (Q4_1 GGUF) against transformers over the dequantised weights in float32:
// golden/real/smollm2.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "golden/golden_case.h"

namespace pagoda::testing_support {
namespace {

constexpr const char* kModelFile = "smollm2-135m-instruct-q4_1.gguf";

class SmolLm2Test : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    const auto shared = shared_dir();
    const auto model = model_file(kModelFile);
    if (!shared) GTEST_SKIP() << "the reference data (shared/golden/real/smollm2) is not here";
    if (!model)
      GTEST_SKIP() << kModelFile << " is not in the model cache: run scripts/fetch_model smollm2-135m";
    golden_ = *shared / "golden" / "real" / "smollm2";
    model_ = *model;
    arrays_ = read_npz((golden_ / "golden.npz").string());
  }

  HarnessOptions options(model::WeightPrecision precision) const {
    const bool exact = precision == model::WeightPrecision::kFloat32;
    HarnessOptions options;
    options.precision = precision;
    options.kv_dtype = exact ? DType::kF32 : DType::kBF16;
    options.activation_precision = model::ActivationPrecision::kMixed;
    options.max_tokens = 128;
    options.max_context = 1024;
    return options;
  }

  template <class T>
  std::vector<T> array(const std::string& name) const {
    const NpyArray& a = arrays_.at(name);
    return std::vector<T>(a.as<T>(), a.as<T>() + a.size());
  }

  std::vector<std::vector<int32_t>> read_windows() const {
    const auto json = nlohmann::json::parse(std::ifstream(golden_ / "ppl.json"));
    const auto ids = json["ids"][0].get<std::vector<int32_t>>();
    const auto size = json["window"].get<size_t>();
    std::vector<std::vector<int32_t>> windows;
    for (size_t first = 0; first < ids.size(); first += size) {
      windows.emplace_back(ids.begin() + static_cast<std::ptrdiff_t>(first),
                           ids.begin() + static_cast<std::ptrdiff_t>(std::min(first + size, ids.size())));
    }
    return windows;
  }

  std::filesystem::path golden_, model_;
  std::map<std::string, NpyArray> arrays_;
};

TEST_P(SmolLm2Test, Float32LogitsAndPromptLogprobs) {
  const IsaScope isa(GetParam());
  ModelHarness model(model_, options(model::WeightPrecision::kFloat32));
  const int64_t vocab = model.vocab_size();
  for (int n = 0; n < 6; ++n) {
    const std::string prefix = "p" + std::to_string(n) + "_";
    const auto ids = array<int32_t>(prefix + "ids");
    const auto expected_last = array<float>(prefix + "last_logits");
    const auto expected_logprobs = array<float>(prefix + "prompt_logprobs");
    const auto logits = model.logits(ids);
    const float* last = logits.data() + static_cast<int64_t>(ids.size() - 1) * vocab;
    double worst = 0;
    for (int64_t v = 0; v < vocab; ++v) {
      worst = std::max(worst, std::abs(double{last[v]} - double{expected_last[static_cast<size_t>(v)]}));
    }
    EXPECT_LE(worst, 5e-3) << "prompt " << n;
    for (size_t t = 1; t < ids.size(); ++t) {
      const auto logprobs = log_softmax(logits.data() + static_cast<int64_t>(t - 1) * vocab, vocab);
      EXPECT_NEAR(logprobs[static_cast<size_t>(ids[t])], expected_logprobs[t], 2e-3)
          << "prompt " << n << " at " << t;
    }
  }
}

// Equal as long as the reference's margin is above 0.01 (golden README).
TEST_P(SmolLm2Test, Float32GreedyTokens) {
  const IsaScope isa(GetParam());
  ModelHarness model(model_, options(model::WeightPrecision::kFloat32));
  int compared = 0;
  for (int n = 0; n < 6; ++n) {
    const std::string prefix = "p" + std::to_string(n) + "_";
    const auto expected = array<int32_t>(prefix + "gen");
    const auto margins = array<float>(prefix + "gen_margin");
    auto logits = model.last_logits(array<int32_t>(prefix + "ids"));
    for (size_t step = 0; step < expected.size() && margins[step] > 0.01f; ++step, ++compared) {
      ASSERT_EQ(argmax_of(logits.data(), model.vocab_size()), expected[step])
          << "prompt " << n << " step " << step;
      logits = model.last_logits({expected[step]}, false);
    }
  }
  EXPECT_GT(compared, 300);
}

// Mean KL to float32 <= 0.002, top-1 changes <= 1 %, perplexity within 0.3 % of the reference (and 0.1 % in
// float32).
TEST_P(SmolLm2Test, DefaultModeAccuracyOnText) {
  if (GetParam() == Isa::kScalar) GTEST_SKIP() << "4,000 tokens in two modes take minutes in scalar code";
  const IsaScope isa(GetParam());
  ModelHarness exact(model_, options(model::WeightPrecision::kFloat32));
  ModelHarness native(model_, options(model::WeightPrecision::kNative));
  const auto nll = read_npz((golden_ / "ppl.npz").string()).at("nll");
  const int64_t vocab = exact.vocab_size();
  double kl = 0, exact_nll = 0, native_nll = 0, reference_nll = 0;
  int64_t positions = 0, top1_changes = 0, scored = 0;
  for (int64_t i = 0; i < nll.size(); ++i) {
    reference_nll += nll.dtype == "<f8" ? nll.as<double>()[i] : static_cast<double>(nll.as<float>()[i]);
  }
  for (const auto& window : read_windows()) {
    for (size_t first = 0; first < window.size(); first += 128) {
      const std::vector<int32_t> part(
          window.begin() + static_cast<std::ptrdiff_t>(first),
          window.begin() + static_cast<std::ptrdiff_t>(std::min(first + 128, window.size())));
      const auto a = exact.logits(part, first == 0), b = native.logits(part, first == 0);
      for (size_t t = 0; t < part.size(); ++t) {
        const float* pa = a.data() + static_cast<int64_t>(t) * vocab;
        const float* pb = b.data() + static_cast<int64_t>(t) * vocab;
        const auto p = log_softmax(pa, vocab), q = log_softmax(pb, vocab);
        for (size_t v = 0; v < p.size(); ++v) kl += std::exp(p[v]) * (p[v] - q[v]);
        top1_changes += argmax_of(pa, vocab) != argmax_of(pb, vocab);
        ++positions;
        if (first + t + 1 < window.size()) {
          const auto next = static_cast<size_t>(window[first + t + 1]);
          exact_nll -= p[next];
          native_nll -= q[next];
          ++scored;
        }
      }
    }
  }
  ASSERT_EQ(scored, nll.size());
  const auto ratio = [&](double sum) {
    return std::exp((sum - reference_nll) / static_cast<double>(scored));
  };
  const double mean_kl = kl / static_cast<double>(positions);
  const double changed = static_cast<double>(top1_changes) / static_cast<double>(positions);
  std::printf("[ figures ] %s: mean KL %.6f, top-1 changes %.3f %%, perplexity x %.5f (float32 x %.6f)\n",
              std::string(isa_name(GetParam())).c_str(), mean_kl, 100 * changed, ratio(native_nll),
              ratio(exact_nll));
  EXPECT_LE(mean_kl, 0.002);
  EXPECT_LE(changed, 0.01);
  EXPECT_NEAR(ratio(native_nll), 1, 0.003);
  EXPECT_NEAR(ratio(exact_nll), 1, 0.001);
}

INSTANTIATE_TEST_SUITE_P(All, SmolLm2Test, testing::ValuesIn(supported_isas()),
                         [](const auto& test) { return std::string(isa_name(test.param)); });

}  // namespace
}  // namespace pagoda::testing_support
