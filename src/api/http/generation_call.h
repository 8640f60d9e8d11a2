// One POST that generates: one or more generations of the service, one HTTP answer, whole or streamed.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "api/http/error_table.h"
#include "api/http/stream_keeper.h"
#include "api/openai/response.h"
#include "base/result.h"
#include "net/http_types.h"
#include "service/service.h"

namespace pagoda::http {

struct CallOptions {
  std::unique_ptr<openai::ResponseBuilder> builder;
  ErrorResponder respond_error = http::respond_error;  // for errors before the first token
  net::Headers headers;                                // of a successful answer, beside Content-Type
  int n = 1;                                           // choices of each prompt
  bool stream = false;
  bool background = false;  // runs when nothing else does
  // Every event behind the prompt is short: an I/O thread may make it.
  bool short_events = false;
};

// All or nothing: the first prompt that is refused or fails ends the whole call, and the others are
// cancelled. The status line is sent with the first token, so that every error before it is an HTTP status;
// a stream whose first token takes longer sends it with a comment that keeps the connection alive.
// Callbacks of the generations may come from several threads; a mutex makes them one.
class GenerationCall : public KeptStream, public std::enable_shared_from_this<GenerationCall> {
 public:
  GenerationCall(CallOptions options, std::shared_ptr<net::ResponseWriter> response);

  // One generation per prompt, in order. Call once, through a shared_ptr.
  void start(service::Service& service, std::vector<service::GenerationRequest> prompts);
  // Of a stream.
  bool keep_alive() override;

 private:
  struct Part {
    std::shared_ptr<service::Generation> generation;
    int64_t prompt_tokens = 0, cached_tokens = 0;
    std::vector<int64_t> completion_tokens;  // per choice, so far
    bool ended = false;
  };

  void on_accepted(size_t prompt, Result<std::shared_ptr<service::Generation>> result);
  void on_event(size_t prompt, service::GenerationEvent event);
  void on_client_gone();

  // The rest with the mutex held.
  void handle(size_t prompt, service::GenerationEvent event);
  void handle_prompt(size_t prompt, service::PromptEvent event);
  void handle_choice(size_t prompt, service::ChoiceEvent event);
  void handle_end(size_t prompt, const service::EndEvent& event);
  void fail(const Error& error);
  void finish();
  void begin_stream();
  net::Headers answer_headers(const char* content_type);
  void cancel_all();
  openai::UsageCounts usage() const;

  const std::shared_ptr<net::ResponseWriter> response_;
  std::mutex mutex_;
  CallOptions options_;
  std::vector<Part> parts_;
  size_t unanswered_ = 0, running_ = 0;
  std::vector<std::pair<size_t, service::GenerationEvent>> early_;  // until every prompt is accepted
  std::optional<Error> refused_;
  service::FimCut fim_cut_;  // of all prompts
  bool streaming_ = false, done_ = false;
  bool has_events_ = false;  // of a stream: the first one has been sent
};

}  // namespace pagoda::http
