// The quantised checkpoints of golden/quant, against transformers in float32 over the dequantised weights, on
// every ISA tier of this CPU.
#include <gtest/gtest.h>

#include <cmath>

#include "golden/golden_case.h"

namespace pagoda::testing_support {
namespace {

struct QuantParam {
  std::string name;
  Isa isa;
};
void PrintTo(const QuantParam& param, std::ostream* out) {
  *out << param.name << ' ' << isa_name(param.isa);
}

std::vector<QuantParam> quant_params() {
  std::vector<QuantParam> params;
  for (const char* name :
       {"gptq-4bit-g128-sym", "gptq-4bit-g32-asym", "gptq-4bit-gall-sym", "gptq-8bit-g128-sym",
        "gptq-v2-4bit-g64-asym", "gptq-4bit-g128-sym-descact", "gptq-4bit-g32-asym-descact", "awq-4bit-g128",
        "awq-4bit-g64", "ct-w4a16-g128", "ct-w8a8"}) {
    for (const Isa isa : supported_isas()) params.push_back({name, isa});
  }
  return params;
}

class QuantTest : public testing::TestWithParam<QuantParam> {
 protected:
  void SetUp() override {
    dir_ = golden_dir() / "quant" / GetParam().name;
    if (!std::filesystem::exists(dir_)) GTEST_SKIP() << dir_ << " is not here";
    cases_ = read_cases(dir_ / "golden.json", dir_ / "golden.npz");
    ASSERT_EQ(cases_.size(), 3u);
    // The logits of W8A8 are over inputs rounded per token to 8 bits; those of the weights alone are there
    // too.
    if (GetParam().name != "ct-w8a8") return;
    rounds_inputs_ = true;
    const auto arrays = read_npz((dir_ / "golden.npz").string());
    for (size_t n = 0; n < cases_.size(); ++n) {
      const NpyArray& logits = arrays.at("p" + std::to_string(n) + "_logits_weights_only");
      cases_[n].logits.assign(logits.as<float>(), logits.as<float>() + logits.size());
    }
  }
  std::filesystem::path dir_;
  std::vector<GoldenCase> cases_;
  bool rounds_inputs_ = false;
};

TEST_P(QuantTest, Float32MatchesTheReference) {
  const IsaScope isa(GetParam().isa);
  ModelHarness model(dir_, exact_options());
  for (const auto& c : cases_) {
    EXPECT_LE(logit_error(model, c).max, 2e-3) << c.ids.size() << " ids";
    if (!rounds_inputs_) expect_greedy(model, c, 2e-3, 0);
  }
}

// Activations of 16 bits: what is left is the rounding of floats to bfloat16, as transformers has it in that
// type.
TEST_P(QuantTest, CodesPickTheSameTokens) {
  const IsaScope isa(GetParam().isa);
  HarnessOptions options = native_options();
  options.activation_precision = model::ActivationPrecision::kInt16;
  ModelHarness model(dir_, options);
  for (const auto& c : cases_) {
    EXPECT_LE(logit_error(model, c).max, 2 * c.bf16_max_abs_diff) << c.ids.size() << " ids";
    if (!rounds_inputs_) expect_greedy(model, c, 0, 0);
  }
}

// A step of seven tokens, of one, or the whole prompt: the same bits.
TEST_P(QuantTest, ChunksChangeNothing) {
  const IsaScope isa(GetParam().isa);
  HarnessOptions options = native_options();
  options.activation_precision = model::ActivationPrecision::kMixed;
  ModelHarness whole(dir_, options);
  for (const int64_t step : {1, 7}) {
    options.max_tokens = step;
    ModelHarness chunked(dir_, options);
    for (const auto& c : cases_) EXPECT_EQ(chunked.logits(c.ids), whole.logits(c.ids)) << step;
  }
}

// Float weights rounded while they are loaded.
class RoundingTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    dir_ = golden_dir() / "tiny" / "llama-tied-f32";
    if (!std::filesystem::exists(dir_)) GTEST_SKIP() << dir_ << " is not here";
    cases_ = read_cases(dir_ / "golden.json", dir_ / "golden.npz");
  }
  // Root mean square of the error of the logits of all prompts, relative to that of the logits.
  double relative_error(const HarnessOptions& options) {
    ModelHarness model(dir_, options);
    double error = 0, size = 0;
    for (const auto& c : cases_) {
      const auto logits = model.logits(c.ids);
      for (size_t i = 0; i < c.logits.size(); ++i) {
        error += std::pow(double{logits[i]} - double{c.logits[i]}, 2);
        size += std::pow(double{c.logits[i]}, 2);
      }
    }
    return std::sqrt(error / size);
  }
  std::filesystem::path dir_;
  std::vector<GoldenCase> cases_;
};

TEST_P(RoundingTest, LogitsMoveAsFarAsTheWeightsDo) {
  const IsaScope isa(GetParam());
  // The longest way from token to logit passes twelve matrices: the embedding, five in each of two layers and
  // the head. At worst their relative errors add up.
  const double matrices = 12;
  // A step of max / 127 or of (max - min) / 15, uniform error: step / sqrt(12). Normally distributed weights
  // have their maximum of 128 at 2.7 sigma, of 32 at 2.1.
  const double int8_error = 2.7 / 127 / std::sqrt(12.0), int4_error = 2 * 2.1 / 15 / std::sqrt(12.0);
  HarnessOptions options = exact_options();
  options.quantization = "int8";
  const double int8 = relative_error(options);
  EXPECT_LT(int8, matrices * int8_error);
  EXPECT_GT(int8, int8_error / 4);  // something was rounded
  options.quantization = "int4";
  const double int4 = relative_error(options);
  EXPECT_LT(int4, matrices * int4_error);
  EXPECT_GT(int4, 4 * int8);  // the layers have other codes than with int8
  // Codes with activations of 16 bits and a cache in bfloat16 add little to that.
  options = native_options();
  options.activation_precision = model::ActivationPrecision::kInt16;
  options.quantization = "int4";
  EXPECT_LT(relative_error(options), int4 * 1.1);
  options.quantization = "int8";
  EXPECT_LT(relative_error(options), int8 * 2 + 0x1p-8);  // 8 bits of bfloat16
}

INSTANTIATE_TEST_SUITE_P(All, RoundingTest, testing::ValuesIn(supported_isas()),
                         [](const auto& test) { return std::string(isa_name(test.param)); });

INSTANTIATE_TEST_SUITE_P(All, QuantTest, testing::ValuesIn(quant_params()), [](const auto& test) {
  std::string name = test.param.name + "_" + std::string(isa_name(test.param.isa));
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

}  // namespace
}  // namespace pagoda::testing_support
