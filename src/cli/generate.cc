#include "cli/generate.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <future>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/runtime.h"
#include "service/service.h"

namespace pagoda::cli {
namespace {

service::Prompt make_prompt(const GenerateFlags& flags, const model::Checkpoint& checkpoint) {
  std::string text = flags.prompt;
  if (text == "-") text.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  if (!flags.chat) return service::TextPrompt{text, true};
  nlohmann::ordered_json context;
  context["messages"] = {{{"role", "user"}, {"content", text}}};
  context["tools"] = nullptr;
  context["documents"] = nullptr;
  context["add_generation_prompt"] = true;
  context["bos_token"] = checkpoint.bos_token;
  context["eos_token"] = checkpoint.eos_token;
  return service::ChatPrompt{context.dump()};
}

service::GenerationRequest make_request(const GenerateFlags& flags, const model::Checkpoint& checkpoint) {
  const bool use_defaults = flags.engine.generation_config == "auto";
  const model::GenerationDefaults defaults =
      use_defaults ? checkpoint.generation : model::GenerationDefaults{};
  service::GenerationRequest request;
  request.prompt = make_prompt(flags, checkpoint);
  request.max_tokens = flags.max_tokens;
  const double temperature = flags.temperature >= 0 ? flags.temperature : defaults.temperature.value_or(1.0);
  const double top_p = flags.top_p >= 0 ? flags.top_p : defaults.top_p.value_or(1.0);
  request.sampling.temperature = static_cast<float>(temperature);
  request.sampling.top_p = static_cast<float>(top_p);
  request.sampling.top_k = flags.top_k >= 0 ? flags.top_k : defaults.top_k.value_or(0);
  request.sampling.min_p = static_cast<float>(defaults.min_p.value_or(0.0));
  request.sampling.repetition_penalty = static_cast<float>(defaults.repetition_penalty.value_or(1.0));
  if (flags.seed >= 0) request.seed = static_cast<uint64_t>(flags.seed);
  request.stop = flags.stop;
  request.ignore_eos = flags.ignore_eos;
  return request;
}

// Collects the outcome; called on the service's text thread.
struct Printer {
  std::promise<std::optional<Error>> done;
  std::chrono::steady_clock::time_point first_text{}, last_text{};
  service::Usage usage;

  void operator()(const service::GenerationEvent& event) {
    if (const auto* choice = std::get_if<service::ChoiceEvent>(&event)) {
      last_text = std::chrono::steady_clock::now();
      if (first_text.time_since_epoch().count() == 0) first_text = last_text;
      std::fwrite(choice->text.data(), 1, choice->text.size(), stdout);
      std::fflush(stdout);
    } else if (const auto* end = std::get_if<service::EndEvent>(&event)) {
      usage = end->usage;
      done.set_value(end->error);
    }
  }
};

}  // namespace

Result<void> run_generate(const GenerateFlags& flags) {
  const SteadyClock clock;
  RunPlan plan = PAGODA_TRY(make_run_plan(flags.engine));
  auto runtime = PAGODA_TRY(Runtime::load(std::move(plan), flags.engine.chat_template, {}, clock));
  const model::Checkpoint& checkpoint = runtime->plan().checkpoint;
  service::ServiceOptions options;
  options.model_name = checkpoint.name;
  options.eos = checkpoint.config.eos;
  options.vocab_size = checkpoint.config.vocab_size;
  auto chat_template = runtime->take_chat_template();
  if (flags.chat && !chat_template) {
    return make_error(ErrorKind::kInvalidArgument,
                      "--chat: the model has no chat template; give one with --chat-template", "--chat");
  }
  service::Service service(runtime->engine(), runtime->tokenizer(), std::move(chat_template), options, clock);
  runtime->engine().start();
  Printer printer;
  const auto start = std::chrono::steady_clock::now();
  auto finished = printer.done.get_future();
  service.generate(
      make_request(flags, checkpoint),
      [&](Result<std::shared_ptr<service::Generation>> accepted) {
        if (!accepted) printer.done.set_value(std::move(accepted).error());
      },
      [&](service::GenerationEvent event) { printer(event); });
  auto error = finished.get();
  runtime->engine().stop();
  std::printf("\n");
  if (error) return *error;
  const auto seconds = [](auto d) { return std::chrono::duration<double>(d).count(); };
  const double generating = seconds(printer.last_text - printer.first_text);
  std::fprintf(stderr, "[%lld prompt tokens, first token after %.2f s; %lld tokens, %.1f tokens/s]\n",
               static_cast<long long>(printer.usage.prompt_tokens), seconds(printer.first_text - start),
               static_cast<long long>(printer.usage.completion_tokens),
               generating > 0 ? static_cast<double>(printer.usage.completion_tokens - 1) / generating : 0.0);
  return {};
}

}  // namespace pagoda::cli
