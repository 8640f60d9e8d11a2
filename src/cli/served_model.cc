#include "cli/served_model.h"

#include <utility>

namespace pagoda::cli {
namespace {

openai::SamplingDefaults sampling_defaults(const EngineFlags& flags, const model::GenerationDefaults& model) {
  openai::SamplingDefaults defaults;
  if (flags.generation_config != "auto") return defaults;
  defaults.temperature = model.temperature;
  defaults.top_p = model.top_p;
  defaults.top_k = model.top_k;
  defaults.min_p = model.min_p;
  defaults.repetition_penalty = model.repetition_penalty;
  defaults.max_tokens = model.max_new_tokens;
  return defaults;
}

std::vector<std::pair<std::string, std::string>> template_variables(const model::Checkpoint& checkpoint) {
  std::vector<std::pair<std::string, std::string>> variables;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) variables.emplace_back(name, value);
  };
  add("bos_token", checkpoint.bos_token);
  add("eos_token", checkpoint.eos_token);
  add("pad_token", checkpoint.pad_token);
  add("unk_token", checkpoint.unk_token);
  return variables;
}

}  // namespace

service::ServiceOptions service_options(const Runtime& runtime, const std::string& name, int text_threads) {
  const model::Checkpoint& checkpoint = runtime.plan().checkpoint;
  service::ServiceOptions options;
  options.model_name = name;
  options.eos = checkpoint.config.eos;
  options.text_threads = text_threads;
  options.vocab_size = checkpoint.config.vocab_size;
  const model::FimTokens& fim = checkpoint.fim;
  const auto own = text::FimTemplate::detect(
      *runtime.tokenizer(), {fim.prefix, fim.suffix, fim.middle, fim.pad, fim.repo, fim.separator});
  if (own) options.fim_template = std::make_shared<const text::FimTemplate>(*own);
  return options;
}

Result<void> set_fim_template(const Runtime& runtime, const std::string& source,
                              service::ServiceOptions* options) {
  if (source.empty()) return {};
  auto parsed = PAGODA_TRY(text::FimTemplate::parse(*runtime.tokenizer(), source));
  options->fim_template = std::make_shared<const text::FimTemplate>(std::move(parsed));
  return {};
}

http::LoadedModel loaded_model(const EngineFlags& flags, const Runtime& runtime, service::Service& service,
                               std::vector<std::string> names) {
  const model::Checkpoint& checkpoint = runtime.plan().checkpoint;
  http::LoadedModel loaded;
  loaded.service = &service;
  loaded.names = std::move(names);
  loaded.defaults = sampling_defaults(flags, checkpoint.generation);
  loaded.template_variables = template_variables(checkpoint);
  loaded.quantization = checkpoint.format;
  return loaded;
}

}  // namespace pagoda::cli
