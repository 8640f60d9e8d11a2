// The random checkpoints of golden/tiny, against transformers in float32, on every ISA tier of this CPU.
#include <gtest/gtest.h>

#include <memory>

#include "golden/golden_case.h"

namespace pagoda::testing_support {
namespace {

struct TinyParam {
  std::string name;
  Isa isa;
};
void PrintTo(const TinyParam& param, std::ostream* out) {
  *out << param.name << ' ' << isa_name(param.isa);
}

std::vector<TinyParam> tiny_params() {
  std::vector<TinyParam> params;
  for (const char* name :
       {"llama-tied-f32", "llama3-rope-sharded", "llama-spm-bias", "mistral-swa", "qwen2", "qwen3", "gemma2",
        "gemma3", "phi3", "phi3-longrope", "granite", "starcoder2", "gpt2", "mixtral", "qwen3-moe"}) {
    for (const Isa isa : supported_isas()) params.push_back({name, isa});
  }
  return params;
}

class TinyTest : public testing::TestWithParam<TinyParam> {
 protected:
  void SetUp() override {
    dir_ = golden_dir() / "tiny" / GetParam().name;
    if (!std::filesystem::exists(dir_)) GTEST_SKIP() << dir_ << " is not here";
    cases_ = read_cases(dir_ / "golden.json", dir_ / "golden.npz");
    ASSERT_EQ(cases_.size(), 3u);
  }
  // The reference of phi3-longrope takes the short factors for its first two prompts and the long ones for
  // the third: here the longest context that may come decides.
  int64_t max_context(size_t number) const {
    return GetParam().name == "phi3-longrope" && number < 2 ? 64 : 512;
  }
  // Runs check(model, case) for every case.
  template <class Check>
  void for_cases(HarnessOptions options, const Check& check) {
    std::unique_ptr<ModelHarness> model;
    for (size_t n = 0; n < cases_.size(); ++n) {
      if (model == nullptr || options.max_context != max_context(n)) {
        options.max_context = max_context(n);
        model = std::make_unique<ModelHarness>(dir_, options);
      }
      check(*model, cases_[n]);
    }
  }
  std::filesystem::path dir_;
  std::vector<GoldenCase> cases_;
};

TEST_P(TinyTest, Float32MatchesTheReference) {
  const IsaScope isa(GetParam().isa);
  for_cases(exact_options(), [](ModelHarness& model, const GoldenCase& c) {
    EXPECT_LE(logit_error(model, c).max, 2e-3) << c.ids.size() << " ids";
    expect_greedy(model, c, 2e-3, 0);
  });
}

TEST_P(TinyTest, BFloat16PicksTheSameTokens) {
  const IsaScope isa(GetParam().isa);
  for_cases(native_options(), [](ModelHarness& model, const GoldenCase& c) {
    // Rounding may send a token to another expert, so that only float32 can be compared there.
    if (!model.model().config().moe.layers.empty()) return;
    EXPECT_LE(logit_error(model, c).max, 2 * c.bf16_max_abs_diff) << c.ids.size() << " ids";
    expect_greedy(model, c, 0, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(All, TinyTest, testing::ValuesIn(tiny_params()), [](const auto& test) {
  std::string name = test.param.name + "_" + std::string(isa_name(test.param.isa));
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

}  // namespace
}  // namespace pagoda::testing_support
