// The distribution of Sampler against tests/data/sampling, which was computed in float64 by the definition of
// vLLM's sampler. Cases whose cut lies too close to a boundary for float32 are not in the data.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sampling/sampler.h"
#include "support/npz.h"
#include "support/shared_data.h"

namespace pagoda::sampling {
namespace {

using nlohmann::json;
using testing_support::NpyArray;

std::vector<TokenId> token_ids(const json& list) {
  std::vector<TokenId> out;
  for (const json& id : list) out.push_back({id.get<int32_t>()});
  return out;
}

SamplingParams parse_params(const json& p) {
  SamplingParams params;
  params.temperature = p.value("temperature", 1.0f);
  params.top_p = p.value("top_p", 1.0f);
  params.top_k = p.value("top_k", int64_t{0});
  params.min_p = p.value("min_p", 0.0f);
  params.repetition_penalty = p.value("repetition_penalty", 1.0f);
  params.frequency_penalty = p.value("frequency_penalty", 0.0f);
  params.presence_penalty = p.value("presence_penalty", 0.0f);
  params.min_tokens = p.value("min_tokens", int64_t{0});
  params.stop_token_ids = token_ids(p.value("stop_token_ids", json::array()));
  params.allowed_token_ids = token_ids(p.value("allowed_token_ids", json::array()));
  for (const json& word : p.value("bad_words_ids", json::array()))
    params.bad_words.push_back(token_ids(word));
  const json bias_by_id = p.value("logit_bias", json::object());
  for (const auto& [id, bias] : bias_by_id.items()) {
    params.logit_bias.emplace_back(TokenId{std::stoi(id)}, bias.get<float>());
  }
  return params;
}

struct Data {
  json cases;
  std::map<std::string, NpyArray> logits, probs;
};

Data load(const std::filesystem::path& folder) {
  std::ifstream file(folder / "cases.json");
  return {json::parse(file).at("cases"), testing_support::read_npz((folder / "logits.npz").string()),
          testing_support::read_npz((folder / "probs.npz").string())};
}

std::vector<float> expected(const Data& data, const json& row, size_t vocab) {
  std::vector<float> probs(vocab);
  if (row.contains("ids")) {
    for (size_t i = 0; i < row["ids"].size(); ++i)
      probs[row["ids"][i].get<size_t>()] = row["probs"][i].get<float>();
  } else {
    const NpyArray& stored = data.probs.at(fmt::format("c{}_probs", row["id"].get<int>()));
    probs.assign(stored.as<float>(), stored.as<float>() + stored.size());
  }
  return probs;
}

void check_case(const Data& data, const json& row) {
  const NpyArray& stored = data.logits.at(row["logits"].get<std::string>());
  const std::vector<float> raw(stored.as<float>(), stored.as<float>() + stored.size());
  const SamplingParams params = parse_params(row["params"]);
  const std::vector<TokenId> prompt = token_ids(row["params"].value("prompt_ids", json::array()));
  const std::vector<TokenId> output = token_ids(row["params"].value("output_ids", json::array()));
  const TokenHistory history{prompt, output};
  SCOPED_TRACE("case " + row["id"].dump() + " on " + row["logits"].dump() + " with " + row["params"].dump());

  Sampler sampler(static_cast<int64_t>(raw.size()));
  std::vector<float> got = raw;
  sampler.distribution(got, params, history);
  const std::vector<float> want = expected(data, row, raw.size());
  size_t worst = 0, wrong_support = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::abs(got[i] - want[i]) > std::abs(got[worst] - want[worst])) worst = i;
    // Shares below the smallest normal float32 may vanish in one of the two computations.
    if ((got[i] > 0) != (want[i] > 0) && want[i] + got[i] >= 1e-37f) ++wrong_support;
  }
  EXPECT_NEAR(got[worst], want[worst], 1e-5) << "token " << worst;
  EXPECT_EQ(wrong_support, 0u);

  std::vector<float> drawn = raw;
  const auto token = static_cast<size_t>(sampler.sample(drawn, params, history, 0).token.value);
  EXPECT_GT(want[token], 0.0f);

  const SampledToken scored = score_token(raw, TokenId{0}, 5);
  ASSERT_EQ(scored.top.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(scored.top[i].token.value, row["raw_top5_ids"][i].get<int32_t>());
    EXPECT_NEAR(scored.top[i].logprob, row["raw_top5_logprobs"][i].get<double>(), 1e-5);
  }
}

void check_all(const std::filesystem::path& folder) {
  const Data data = load(folder);
  EXPECT_GE(data.cases.size(), 20u);
  for (const json& row : data.cases) check_case(data, row);
}

TEST(SamplingGoldenTest, DistributionsOfTheRepository) {
  check_all(testing_support::test_data_dir() / "sampling");
}

TEST(SamplingGoldenTest, DistributionsOfTheSharedData) {
  const auto shared = testing_support::shared_dir();
  if (!shared || !std::filesystem::exists(*shared / "golden" / "sampling"))
    GTEST_SKIP() << "shared/golden/sampling is not here; its copy in tests/data was checked";
  check_all(*shared / "golden" / "sampling");
}

}  // namespace
}  // namespace pagoda::sampling
