// A service over the scripted model whose engine is stepped by the test.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "scripted/scripted_model.h"
#include "scripted/scripted_tokenizer.h"
#include "service/service.h"

namespace pagoda::service {

// What a generation sent, by the test's own bookkeeping.
struct Received {
  std::mutex mutex;
  bool answered = false;
  std::optional<Error> refused;
  std::shared_ptr<Generation> generation;
  std::vector<PromptEvent> prompts;
  std::vector<ChoiceEvent> choices;
  std::optional<EndEvent> end;
  int events_after_end = 0, events_before_answer = 0;

  std::string text(int choice = 0) {
    const std::lock_guard lock(mutex);
    std::string result;
    for (const ChoiceEvent& event : choices) {
      if (event.choice == choice) result += event.text;
    }
    return result;
  }
};

class ServiceTest : public testing::Test {
 protected:
  void build(scripted::ScriptTable table, int text_threads = 2, int num_blocks = 64,
             int64_t max_model_len = 128) {
    table_ = std::make_shared<const scripted::ScriptTable>(std::move(table));
    model_ = std::make_unique<scripted::ScriptedModel>(table_, max_model_len);
    engine::EngineOptions options;
    options.num_blocks = num_blocks;
    options.max_model_len = max_model_len;
    options.max_num_seqs = 8;
    engine_ = std::make_unique<engine::Engine>(*model_, KvStorage(model_->kv_shape(), num_blocks), options,
                                               pool_, clock_);
    ServiceOptions service_options;
    service_options.eos = {scripted::kEos};
    service_options.text_threads = text_threads;
    service_options.vocab_size = table_->vocab_size();
    service_ = std::make_unique<Service>(*engine_, std::make_shared<scripted::ScriptedTokenizer>(table_),
                                         std::nullopt, service_options, clock_);
  }

  static GenerationRequest request(const std::string& prompt) {
    GenerationRequest result;
    result.prompt = TextPrompt{prompt};
    result.sampling.temperature = 0;
    return result;
  }

  std::shared_ptr<Received> start(GenerationRequest request, std::shared_ptr<Executor> executor = nullptr) {
    auto received = std::make_shared<Received>();
    service_->generate(
        std::move(request),
        [received](Result<std::shared_ptr<Generation>> result) {
          const std::lock_guard lock(received->mutex);
          received->answered = true;
          if (result) {
            received->generation = *result;
          } else {
            received->refused = result.error();
          }
        },
        [received](GenerationEvent event) {
          const std::lock_guard lock(received->mutex);
          received->events_after_end += received->end ? 1 : 0;
          received->events_before_answer += received->answered ? 0 : 1;
          if (auto* prompt = std::get_if<PromptEvent>(&event))
            received->prompts.push_back(std::move(*prompt));
          if (auto* choice = std::get_if<ChoiceEvent>(&event))
            received->choices.push_back(std::move(*choice));
          if (auto* end = std::get_if<EndEvent>(&event)) received->end = std::move(*end);
        },
        std::move(executor));
    service_->flush();
    return received;
  }

  // Steps until nothing is left; events are processed between steps, as they would be with a slow model.
  void run() {
    while (engine_->step()) service_->flush();
    service_->flush();
  }

  std::shared_ptr<Received> generate(GenerationRequest request) {
    auto received = start(std::move(request));
    run();
    EXPECT_EQ(received->events_after_end, 0);
    EXPECT_EQ(received->events_before_answer, 0);
    EXPECT_TRUE(received->refused || received->end);
    return received;
  }

  ManualClock clock_;
  ComputePool pool_{1};
  std::shared_ptr<const scripted::ScriptTable> table_;
  std::unique_ptr<scripted::ScriptedModel> model_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<Service> service_;
};

// A table with one script of text pieces.
inline scripted::ScriptTable script(const std::string& name, const std::vector<std::string>& pieces,
                                    bool repeat = false) {
  scripted::ScriptTable table;
  scripted::Script entry;
  for (const std::string& piece : pieces) entry.steps.push_back({table.intern(piece)});
  entry.repeat = repeat;
  table.add(name, std::move(entry));
  return table;
}

}  // namespace pagoda::service
