// One prompt of a golden.json / .npz pair of tiny/ or gguf/ (golden README: tolerances).
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "golden/model_harness.h"
#include "support/npz.h"
#include "support/shared_data.h"

namespace pagoda::testing_support {

struct GoldenCase {
  std::vector<int32_t> ids, generated;
  std::vector<double> margins;    // top-1 minus top-2 at each generated step
  int64_t first_row = 0;          // position of the first reference row
  std::vector<float> logits;      // [rows, vocab]
  std::vector<int32_t> top5_ids;  // [32, 5]
  std::vector<float> top5_logprobs;
  double bf16_max_abs_diff = 0;  // how far transformers itself strays in bfloat16
};

inline std::vector<GoldenCase> read_cases(const std::filesystem::path& json_path,
                                          const std::filesystem::path& npz_path) {
  const auto json = nlohmann::json::parse(std::ifstream(json_path));
  const auto arrays = read_npz(npz_path.string());
  std::vector<GoldenCase> cases;
  for (size_t n = 0; n < json["cases"].size(); ++n) {
    const auto& source = json["cases"][n];
    const std::string prefix = "p" + std::to_string(n) + "_";
    GoldenCase c;
    c.ids = source["ids"].get<std::vector<int32_t>>();
    c.generated = source["gen"].get<std::vector<int32_t>>();
    c.margins = source["margins"].get<std::vector<double>>();
    c.bf16_max_abs_diff = source["hf_bf16"]["max_abs_diff"].get<double>();
    const bool tail = arrays.count(prefix + "last8_logits") != 0;
    const NpyArray& logits = arrays.at(prefix + (tail ? "last8_logits" : "logits"));
    c.first_row = tail ? static_cast<int64_t>(c.ids.size()) - 8 : 0;
    c.logits.assign(logits.as<float>(), logits.as<float>() + logits.size());
    const NpyArray& top = arrays.at(prefix + "gen_top5_ids");
    c.top5_ids.assign(top.as<int32_t>(), top.as<int32_t>() + top.size());
    const NpyArray& probs = arrays.at(prefix + "gen_top5_logprobs");
    c.top5_logprobs.assign(probs.as<float>(), probs.as<float>() + probs.size());
    cases.push_back(std::move(c));
  }
  return cases;
}

// Largest |difference| between the model's logits and the reference rows.
struct LogitError {
  double max = 0, mean = 0;
};
inline LogitError logit_error(ModelHarness& model, const GoldenCase& c) {
  const auto logits = model.logits(c.ids);
  const auto offset = static_cast<size_t>(c.first_row * model.vocab_size());
  LogitError error;
  for (size_t i = 0; i < c.logits.size(); ++i) {
    const double diff = std::abs(double{logits[offset + i]} - double{c.logits[i]});
    error.max = std::max(error.max, diff);
    error.mean += diff / static_cast<double>(c.logits.size());
  }
  return error;
}

// Greedy generation after the prompt; expects the golden ids and, within `tolerance`, their top-5 logprobs.
// Steps with a margin at or below `min_margin` end the comparison: there rounding decides.
inline void expect_greedy(ModelHarness& model, const GoldenCase& c, double tolerance, double min_margin) {
  const int64_t vocab = model.vocab_size();
  auto logits = model.last_logits(c.ids);
  for (size_t step = 0; step < c.generated.size(); ++step) {
    if (c.margins[step] <= min_margin) return;
    ASSERT_EQ(argmax_of(logits.data(), vocab), c.generated[step])
        << "step " << step << ", margin " << c.margins[step];
    if (tolerance > 0) {
      const auto logprobs = log_softmax(logits.data(), vocab);
      for (size_t k = 0; k < 5; ++k) {
        const auto id = static_cast<size_t>(c.top5_ids[step * 5 + k]);
        EXPECT_NEAR(logprobs[id], c.top5_logprobs[step * 5 + k], tolerance)
            << "step " << step << ", id " << id;
      }
    }
    logits = model.last_logits({c.generated[step]}, false);
  }
}

}  // namespace pagoda::testing_support
