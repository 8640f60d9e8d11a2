// DESIGN.md principle 2, bit for bit: the logprobs of 20 prompts alone = in batches of 2, 7, 32 = with chunks
// of 16, 64, 512 = with the prefix cached = after preemption in a tiny pool = with drafts. Through the
// engine, in the default mode and with other KV caches.
#include <gtest/gtest.h>

#include <cstring>

#include "base/clock.h"
#include "engine/engine.h"
#include "golden/golden_case.h"

namespace pagoda::testing_support {
namespace {

constexpr int kPrompts = 20;
constexpr int64_t kOutput = 12;
constexpr int64_t kLongOutput =
    40;  // two to three more blocks for each sequence: a tiny pool runs out on the way

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;  // sampled token and top 5 of every step
  int64_t cached = 0;
  bool finished = false;
};

// How the tokens of a request are drawn.
struct Drawing {
  float temperature = 0.8f;  // sampled, so that the generator's position is tested too
  bool penalties = false;
};

struct Source {
  std::filesystem::path path;
  DType kv = DType::kBF16;
};

// An engine over a checkpoint, driven step by step.
class Lab {
 public:
  Lab(const Source& source, int64_t chunk, int num_blocks, const engine::SpeculationOptions& speculation = {})
      : pool_(2) {
    // A step's budget is at least one token per running sequence, so small chunks mean few sequences.
    auto checkpoint = model::open_checkpoint(source.path.string());
    EXPECT_TRUE(checkpoint) << checkpoint.error().message;
    engine::EngineOptions options;
    options.num_blocks = num_blocks;
    options.max_model_len = std::min<int64_t>(512, checkpoint->config.max_positions);
    options.max_num_seqs = static_cast<int>(std::min<int64_t>(32, chunk));
    options.max_num_batched_tokens = chunk;
    options.speculation = speculation;
    model::DecoderOptions decoder;
    decoder.kv_dtype = source.kv;
    decoder.max_tokens = chunk;
    decoder.max_logit_rows = engine::max_logit_rows(options);
    decoder.max_context = options.max_model_len;
    decoder.activation_precision = model::ActivationPrecision::kMixed;  // both widths, and chosen at load
    auto model = model::load_decoder(*checkpoint, decoder, pool_);
    EXPECT_TRUE(model) << model.error().message;
    model_ = std::move(*model);
    engine_ = std::make_unique<engine::Engine>(*model_, KvStorage(model_->kv_shape(), num_blocks), options,
                                               pool_, clock_);
  }

  // Submits `batch` prompts at a time and runs until they are done.
  std::vector<Answer> run(const std::vector<std::vector<int32_t>>& prompts, size_t batch,
                          int64_t output = kOutput, const Drawing& drawing = {}) {
    std::vector<Answer> answers(prompts.size());
    for (size_t first = 0; first < prompts.size(); first += batch) {
      for (size_t i = first; i < std::min(prompts.size(), first + batch); ++i)
        submit(prompts[i], output, drawing, answers[i]);
      while (engine_->step()) engine_->check_integrity();
    }
    return answers;
  }

  engine::EngineStats stats() const { return engine_->stats(); }

 private:
  void submit(const std::vector<int32_t>& ids, int64_t output, const Drawing& drawing, Answer& answer) {
    engine::EngineRequest request;
    request.id = RequestId{++next_id_};
    for (const int32_t id : ids) request.prompt.push_back(TokenId{id});
    request.max_tokens = output;
    request.sampling.temperature = drawing.temperature;
    if (drawing.penalties) {
      request.sampling.repetition_penalty = 1.02f;
      request.sampling.frequency_penalty = 0.01f;
      request.sampling.presence_penalty = 0.05f;
    }
    request.sampling.seed = 1234 + ids.size();
    request.sampling.num_logprobs = 5;
    request.sink = [&answer](std::span<const engine::EngineEvent> events) {
      for (const auto& event : events) {
        answer.cached = std::max(answer.cached, event.cached_tokens);
        if (event.has_token) {
          answer.tokens.push_back(event.token.token.value);
          answer.logprobs.push_back(event.token.logprob);
          for (const auto& top : event.token.top) answer.logprobs.push_back(top.logprob);
        }
        if (event.finish != engine::FinishReason::kNone) {
          EXPECT_EQ(event.finish, engine::FinishReason::kLength);
          answer.finished = true;
        }
      }
    };
    const auto accepted = engine_->submit(std::move(request));
    ASSERT_TRUE(accepted) << accepted.error().message;
  }

  SteadyClock clock_;
  ComputePool pool_;
  std::unique_ptr<model::Decoder> model_;
  std::unique_ptr<engine::Engine> engine_;
  uint64_t next_id_ = 0;
};

void expect_same(const std::vector<Answer>& expected, const std::vector<Answer>& got,
                 const std::string& what) {
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(got[i].finished) << what << ", prompt " << i;
    ASSERT_EQ(expected[i].tokens, got[i].tokens) << what << ", prompt " << i;
    ASSERT_EQ(expected[i].logprobs.size(), got[i].logprobs.size());
    ASSERT_EQ(std::memcmp(expected[i].logprobs.data(), got[i].logprobs.data(),
                          expected[i].logprobs.size() * sizeof(float)),
              0)
        << what << ", prompt " << i;
  }
}

struct Subject {
  std::string name;
  Isa isa;
  DType kv = DType::kBF16;
};
void PrintTo(const Subject& subject, std::ostream* out) {
  *out << subject.name << ' ' << isa_name(subject.isa);
}

class InvarianceTest : public testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    std::filesystem::path path;
    if (GetParam().name == "smollm2") {
      const auto file = model_file("smollm2-135m-instruct-q4_1.gguf");
      if (!file)
        GTEST_SKIP() << "smollm2-135m is not in the model cache: run scripts/fetch_model smollm2-135m";
      path = *file;
    } else {
      path = test_data_dir() / "golden" / GetParam().name;
      if (!std::filesystem::exists(path)) path = golden_dir() / GetParam().name;
      if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not here";
    }
    source_ = {path, GetParam().kv};
    // Lengths around block, partition and chunk borders; shared heads so that the prefix cache has something
    // to find.
    const int lengths[kPrompts] = {1,  2,   15,  16,  17,  31,  33,  48,  63,  64,
                                   65, 100, 127, 128, 129, 200, 255, 256, 257, 300};
    for (int p = 0; p < kPrompts; ++p) {
      std::vector<int32_t> ids;
      for (int i = 0; i < lengths[p]; ++i) {
        const uint32_t mixed = static_cast<uint32_t>(i * 7919 + (i < 40 ? p % 3 : p) * 104729 + 13);
        ids.push_back(static_cast<int32_t>(mixed % 500 + 5));
      }
      prompts_.push_back(std::move(ids));
    }
  }
  Source source_;
  std::vector<std::vector<int32_t>> prompts_;
};

TEST_P(InvarianceTest, AnswersDoNotDependOnTheCompany) {
  const IsaScope isa(GetParam().isa);
  constexpr int kPlenty = 2048;
  std::vector<Answer> alone;
  for (const auto& prompt : prompts_) {
    Lab lab(source_, 512, kPlenty);
    alone.push_back(lab.run({prompt}, 1).front());
    ASSERT_EQ(alone.back().tokens.size(), static_cast<size_t>(kOutput));
  }
  for (const size_t batch : {size_t{2}, size_t{7}, size_t{32}}) {
    Lab lab(source_, 512, kPlenty);
    expect_same(alone, lab.run(prompts_, batch), "batch of " + std::to_string(batch));
  }
  for (const int64_t chunk : {16, 64, 512}) {
    Lab lab(source_, chunk, kPlenty);
    expect_same(alone, lab.run(prompts_, 7), "chunks of " + std::to_string(chunk));
  }
  {
    Lab lab(source_, 64, kPlenty);
    lab.run(prompts_, 7);
    const auto again = lab.run(prompts_, 7);
    expect_same(alone, again, "prefix cached");
    EXPECT_GE(again.back().cached, 288);
  }
  {
    Lab roomy(source_, 512, kPlenty);
    const auto expected = roomy.run(prompts_, 1, kLongOutput);
    Lab lab(source_, 64, 24);  // the longest sequence alone needs 22 blocks
    expect_same(expected, lab.run(prompts_, 32, kLongOutput), "tiny pool");
    EXPECT_GT(lab.stats().preemptions, 0u);
  }
}

// Rows that verify drafts are computed and drawn as if each came alone: greedy, sampled, with penalties.
TEST_P(InvarianceTest, AnswersDoNotDependOnSpeculation) {
  const IsaScope isa(GetParam().isa);
  constexpr int64_t kLength = 96;
  // Prompts that go round in a circle, and short matches: the models here say nothing that makes sense, so
  // that this is what it takes to have drafts at all.
  std::vector<std::vector<int32_t>> prompts;
  for (int p = 0; p < 6; ++p) {
    const std::vector<int32_t>& circle = prompts_[static_cast<size_t>(4 + p)];
    std::vector<int32_t> ids;
    for (int i = 0; i < 60 + 41 * p; ++i)
      ids.push_back(circle[static_cast<size_t>(i) % (5 + 3 * static_cast<size_t>(p))]);
    prompts.push_back(std::move(ids));
  }
  const engine::SpeculationOptions on{.num_tokens = 16, .min_match = 1, .max_match = 8};
  uint64_t accepted = 0, rejected = 0;
  for (const Drawing& drawing : {Drawing{0.0f, false}, Drawing{0.3f, false}, Drawing{0.3f, true}}) {
    const std::string what = "temperature " + std::to_string(drawing.temperature);
    const auto expected = Lab(source_, 512, 2048).run(prompts, 1, kLength, drawing);
    for (const size_t batch : {size_t{1}, size_t{3}}) {
      Lab lab(source_, 512, 2048, on);
      expect_same(expected, lab.run(prompts, batch, kLength, drawing),
                  what + ", batch " + std::to_string(batch));
      accepted += lab.stats().accepted_tokens;
      rejected += lab.stats().draft_tokens - lab.stats().accepted_tokens;
    }
    Lab tiny(source_, 64, 28, on);  // the longest sequence alone needs 23 blocks
    expect_same(expected, tiny.run(prompts, 6, kLength, drawing), what + ", tiny pool");
    EXPECT_GT(tiny.stats().preemptions, 0u);
  }
  std::printf("%lu drafts accepted, %lu rejected\n", accepted, rejected);
  EXPECT_GT(accepted, 100u);
  EXPECT_GT(rejected, 100u);
}

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const Isa isa : supported_isas()) {
    for (const char* name : {"tiny/llama-tied-f32", "tiny/gemma3", "tiny/mistral-swa",
                             "gguf/llama-q4_k_m.gguf", "tiny/gpt2", "tiny/qwen3-moe"}) {
      all.push_back({name, isa});
    }
    // Other caches, with a window and without.
    all.push_back({"tiny/gemma3", isa, DType::kI8});
    all.push_back({"gguf/llama-q4_k_m.gguf", isa, DType::kI8});
    all.push_back({"tiny/mistral-swa", isa, DType::kF16});
    if (isa != Isa::kScalar) all.push_back({"smollm2", isa});  // scalar code would take minutes
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, InvarianceTest, testing::ValuesIn(subjects()), [](const auto& test) {
  std::string name = test.param.name + "_" + std::string(isa_name(test.param.isa));
  if (test.param.kv != DType::kBF16) name += "_" + std::string(dtype_name(test.param.kv));
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

}  // namespace
}  // namespace pagoda::testing_support
