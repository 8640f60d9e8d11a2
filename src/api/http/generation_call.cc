#include "api/http/generation_call.h"

#include <fmt/format.h>

#include <numeric>

#include "api/http/event_mapping.h"

namespace pagoda::http {
namespace {

std::string event_text(const std::vector<openai::StreamEvent>& events) {
  std::string text;
  for (const openai::StreamEvent& event : events) {
    if (!event.name.empty()) text.append("event: ").append(event.name).append("\n");
    text.append("data: ").append(event.data).append("\n\n");
  }
  return text;
}

}  // namespace

GenerationCall::GenerationCall(CallOptions options, std::shared_ptr<net::ResponseWriter> response)
    : response_(std::move(response)), options_(std::move(options)) {}

void GenerationCall::start(service::Service& service, std::vector<service::GenerationRequest> prompts) {
  parts_.resize(prompts.size());
  for (Part& part : parts_) part.completion_tokens.resize(static_cast<size_t>(options_.n));
  unanswered_ = running_ = prompts.size();
  response_->on_close([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_client_gone();
  });
  // With several prompts the mutex may be held for as long as all that came early takes.
  const bool on_io_thread = options_.stream && options_.short_events && prompts.size() == 1;
  const std::shared_ptr<Executor> executor = on_io_thread ? response_->executor() : nullptr;
  for (size_t i = 0; i < prompts.size(); ++i) {
    prompts[i].background = options_.background;
    service.generate(
        std::move(prompts[i]),
        [self = shared_from_this(), i](Result<std::shared_ptr<service::Generation>> result) {
          self->on_accepted(i, std::move(result));
        },
        [self = shared_from_this(), i](service::GenerationEvent event) {
          self->on_event(i, std::move(event));
        },
        executor);
  }
}

void GenerationCall::on_accepted(size_t prompt, Result<std::shared_ptr<service::Generation>> result) {
  const std::lock_guard lock(mutex_);
  --unanswered_;
  if (result) {
    parts_[prompt].generation = std::move(*result);
    if (done_ || refused_) parts_[prompt].generation->cancel();
  } else if (!refused_) {
    refused_ = std::move(result).error();
    cancel_all();
  }
  if (unanswered_ > 0 || done_) return;
  if (refused_) return fail(*refused_);
  for (auto& [source, event] : std::exchange(early_, {})) {
    if (!done_) handle(source, std::move(event));
  }
}

void GenerationCall::on_event(size_t prompt, service::GenerationEvent event) {
  const std::lock_guard lock(mutex_);
  if (done_) return;
  if (unanswered_ > 0) {
    early_.emplace_back(prompt, std::move(event));
  } else {
    handle(prompt, std::move(event));
  }
}

bool GenerationCall::keep_alive() {
  const std::lock_guard lock(mutex_);
  if (done_ || has_events_) return false;
  if (unanswered_ > 0) return true;  // it may still be refused
  begin_stream();
  response_->write(": the first token is being computed\n\n");
  return true;
}

void GenerationCall::on_client_gone() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(done_, true)) return;
  early_.clear();
  cancel_all();
}

void GenerationCall::handle(size_t prompt, service::GenerationEvent event) {
  if (auto* choice = std::get_if<service::ChoiceEvent>(&event)) {
    handle_choice(prompt, std::move(*choice));
  } else if (auto* start = std::get_if<service::PromptEvent>(&event)) {
    handle_prompt(prompt, std::move(*start));
  } else {
    handle_end(prompt, std::get<service::EndEvent>(event));
  }
}

void GenerationCall::handle_prompt(size_t prompt, service::PromptEvent event) {
  parts_[prompt].prompt_tokens = static_cast<int64_t>(event.ids.size());
  parts_[prompt].cached_tokens = event.cached_tokens;
  fim_cut_.prefix_tokens += event.fim_cut.prefix_tokens;
  fim_cut_.suffix_tokens += event.fim_cut.suffix_tokens;
  fim_cut_.files += event.fim_cut.files;
  options_.builder->set_prompt(static_cast<int>(prompt), prompt_info(std::move(event)));
}

void GenerationCall::handle_choice(size_t prompt, service::ChoiceEvent event) {
  parts_[prompt].completion_tokens[static_cast<size_t>(event.choice)] = event.completion_tokens;
  const int index = static_cast<int>(prompt) * options_.n + event.choice;
  openai::ChoiceDelta delta = choice_delta(index, std::move(event));
  if (!options_.stream) return options_.builder->add(std::move(delta));
  begin_stream();
  has_events_ = true;
  std::string events = event_text(options_.builder->events(std::move(delta), usage()));
  if (!events.empty()) response_->write(std::move(events));
}

void GenerationCall::handle_end(size_t prompt, const service::EndEvent& event) {
  if (event.error) return fail(*event.error);
  parts_[prompt].ended = true;
  if (--running_ == 0) finish();
}

void GenerationCall::fail(const Error& error) {
  done_ = true;
  cancel_all();
  if (!streaming_) return options_.respond_error(*response_, error);
  response_->write(event_text(options_.builder->error_events(http_error(error).body)));
  response_->end_stream();
}

void GenerationCall::finish() {
  done_ = true;
  if (!options_.stream) {
    return response_->respond(200, answer_headers("application/json"), options_.builder->body(usage()));
  }
  begin_stream();
  response_->write(event_text(options_.builder->last_events(usage())));
  response_->end_stream();
}

void GenerationCall::begin_stream() {
  if (std::exchange(streaming_, true)) return;
  net::Headers headers = answer_headers("text/event-stream; charset=utf-8");
  headers.emplace_back("Cache-Control", "no-cache");
  // nginx would collect events into its own buffer otherwise.
  headers.emplace_back("X-Accel-Buffering", "no");
  response_->begin_stream(200, std::move(headers));
}

// What had to stay out of a prompt is said, as it changes the answer.
net::Headers GenerationCall::answer_headers(const char* content_type) {
  net::Headers headers = std::move(options_.headers);
  if (fim_cut_.any()) {
    headers.emplace_back("X-Prompt-Truncated",
                         fmt::format("prefix={}, suffix={}, files={}", fim_cut_.prefix_tokens,
                                     fim_cut_.suffix_tokens, fim_cut_.files));
  }
  headers.emplace_back("Content-Type", content_type);
  return headers;
}

void GenerationCall::cancel_all() {
  for (const Part& part : parts_) {
    if (part.generation && !part.ended) part.generation->cancel();
  }
}

openai::UsageCounts GenerationCall::usage() const {
  openai::UsageCounts counts;
  for (const Part& part : parts_) {
    counts.prompt_tokens += part.prompt_tokens;
    counts.cached_tokens += part.cached_tokens;
    counts.completion_tokens +=
        std::accumulate(part.completion_tokens.begin(), part.completion_tokens.end(), int64_t{0});
  }
  return counts;
}

}  // namespace pagoda::http
