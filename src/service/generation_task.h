// One running generation: prepares the request, gives it to the engine, and turns the engine's events into
// text.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "service/choice_stream.h"
#include "service/grammar_source.h"
#include "service/prompt_encoder.h"
#include "service/service.h"
#include "service/text_pool.h"

namespace pagoda::service {

// What every generation of a service needs; outlives them.
struct ServiceContext {
  engine::Engine& engine;
  const text::Tokenizer& tokenizer;
  const PromptEncoder& encoder;
  const ServiceOptions& options;
  const Clock& clock;
  TextPool& pool;
  GrammarSource& grammars;
};

using AcceptedCallback = std::function<void(Result<std::shared_ptr<Generation>>)>;

// A strand: prepare() and then run() are called one at a time, in order, by the text pool and, once the
// prompt event is out, by the executor. Events of the engine are put into a list by the engine thread and
// looked at here.
class GenerationTask final : public Generation,
                             public Task,
                             public std::enable_shared_from_this<GenerationTask> {
 public:
  // `executor` may be null.
  GenerationTask(const ServiceContext& context, GenerationRequest request, GenerationSink sink,
                 std::shared_ptr<Executor> executor);

  // Posts the preparation; `accepted` is called from it.
  void start(AcceptedCallback accepted);
  void cancel() override;
  // Turns what the engine sent so far into events.
  void run() override;

 private:
  void prepare(const AcceptedCallback& accepted);
  Result<void> submit();
  Result<engine::EngineRequest> engine_request();
  Result<void> encode_prompt();
  int64_t reserved_tokens() const;
  uint64_t own_seed() const;
  Result<int64_t> choose_max_tokens(int64_t prompt_tokens) const;
  Result<void> check_token_ids() const;
  Result<void> encode_bad_words(sampling::SamplingParams* sampling) const;
  Error context_error(int64_t prompt_tokens, bool at_least) const;

  void receive(std::span<const engine::EngineEvent> events);  // on the engine thread
  // Posts run(). Whoever sets scheduled_ calls it, without the mutex: the thread that it wakes needs that.
  void schedule(bool quick);
  // After a turn: gives up scheduled_, or has another turn when more was received.
  void finish_turn();
  void process(const std::vector<engine::EngineEvent>& events);
  void send_prompt_event(const std::vector<engine::EngineEvent>& events);
  void send_gained_text();
  void finish_on(engine::FinishReason reason);
  void end(std::optional<Error> error);

  const ServiceContext& context_;
  GenerationRequest request_;
  GenerationSink sink_;
  const std::shared_ptr<Executor> executor_;  // null: everything runs on the text pool
  const RequestId id_;
  const std::optional<TimePoint> deadline_;
  ChoiceRules rules_;

  // Of the strand.
  std::string prompt_text_;
  std::vector<TokenId> prompt_ids_;
  FimCut fim_cut_;
  std::vector<ChoiceStream> choices_;
  std::vector<engine::EngineEvent> taken_;  // changes places with received_, so that both keep their memory
  int64_t cached_tokens_ = 0;
  bool prompt_sent_ = false, ended_ = false;

  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  std::vector<engine::EngineEvent> received_;
  bool scheduled_ = true;  // the strand runs or is posted; true from the start because of prepare()
  bool quick_ = false;     // what follows is quick work: the prompt event is out
};

}  // namespace pagoda::service
