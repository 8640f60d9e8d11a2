#include "service/service.h"

#include <utility>

#include "service/generation_task.h"
#include "service/prompt_encoder.h"
#include "service/text_pool.h"

namespace pagoda::service {

class Service::Impl {
 public:
  Impl(engine::Engine& engine, std::shared_ptr<const text::Tokenizer> tokenizer,
       std::optional<text::ChatTemplate> chat_template, const ServiceOptions& options, const Clock& clock)
      : tokenizer_(std::move(tokenizer)),
        chat_template_(std::move(chat_template)),
        options_(options),
        encoder_(*tokenizer_, this->chat_template(), options.fim_template.get()),
        grammars_(*tokenizer_, options_),
        context_{engine, *tokenizer_, encoder_, options_, clock, pool_, grammars_},
        pool_(options.text_threads) {}

  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  const text::ChatTemplate* chat_template() const { return chat_template_ ? &*chat_template_ : nullptr; }
  const ServiceOptions& options() const { return options_; }
  const PromptEncoder& encoder() const { return encoder_; }
  const ServiceContext& context() const { return context_; }
  TextPool& pool() { return pool_; }

 private:
  const std::shared_ptr<const text::Tokenizer> tokenizer_;
  const std::optional<text::ChatTemplate> chat_template_;
  const ServiceOptions options_;
  const PromptEncoder encoder_;
  GrammarSource grammars_;
  const ServiceContext context_;
  // Last: its destructor runs what was posted, and that uses everything above.
  TextPool pool_;
};

Service::Service(engine::Engine& engine, std::shared_ptr<const text::Tokenizer> tokenizer,
                 std::optional<text::ChatTemplate> chat_template, const ServiceOptions& options,
                 const Clock& clock)
    : impl_(std::make_unique<Impl>(engine, std::move(tokenizer), std::move(chat_template), options, clock)) {}

Service::~Service() = default;

const text::Tokenizer& Service::tokenizer() const {
  return impl_->tokenizer();
}
const text::ChatTemplate* Service::chat_template() const {
  return impl_->chat_template();
}

const text::FimTemplate* Service::fim_template() const {
  return impl_->options().fim_template.get();
}

void Service::generate(GenerationRequest request,
                       std::function<void(Result<std::shared_ptr<Generation>>)> accepted, GenerationSink sink,
                       std::shared_ptr<Executor> executor) {
  if (const std::string& why = impl_->options().no_generation; !why.empty()) {
    return accepted(make_error(ErrorKind::kInvalidArgument, why, "model", "model_not_supported"));
  }
  const auto task = std::make_shared<GenerationTask>(impl_->context(), std::move(request), std::move(sink),
                                                     std::move(executor));
  task->start(std::move(accepted));
}

void Service::run_on_text_pool(std::function<void()> work) {
  impl_->pool().post_bulk(std::move(work));
}
void Service::flush() {
  impl_->pool().flush();
}

Result<text::RenderedPrompt> Service::encode(const Prompt& prompt, bool parse_special_tokens) const {
  return impl_->encoder().encode(prompt, impl_->options().vocab_size, parse_special_tokens);
}

int64_t Service::max_model_len() const {
  return impl_->context().engine.options().max_model_len;
}
int Service::max_num_seqs() const {
  return impl_->context().engine.options().max_num_seqs;
}
int64_t Service::vocab_size() const {
  return impl_->options().vocab_size;
}
const std::string& Service::model_name() const {
  return impl_->options().model_name;
}
engine::EngineStats Service::stats() const {
  return impl_->context().engine.stats();
}
engine::BlocksSnapshot Service::debug_blocks() const {
  return impl_->context().engine.debug_blocks();
}

}  // namespace pagoda::service
