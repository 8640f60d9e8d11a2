// What comes out of the Rust library as C++ values.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "pagoda_text.h"

namespace pagoda::text::internal {

inline std::string take_text(pt_text text) {
  std::string copy(text.data, text.size);
  pt_text_free(text);
  return copy;
}

inline std::vector<TokenId> take_ids(pt_ids ids) {
  std::vector<TokenId> copy;
  copy.reserve(ids.size);
  for (size_t i = 0; i < ids.size; ++i) copy.push_back(TokenId{static_cast<int32_t>(ids.data[i])});
  pt_ids_free(ids);
  return copy;
}

// The calling thread's last failure. `kind` is for input at fault; a panic is the library's fault.
inline Error rust_error(pt_status status, ErrorKind kind) {
  return make_error(status == PT_PANIC ? ErrorKind::kInternal : kind, pt_last_error());
}

template <class T, void (*kFree)(T*)>
struct RustDeleter {
  void operator()(T* object) const noexcept { kFree(object); }
};
using TokenizerHandle = std::unique_ptr<pt_tokenizer, RustDeleter<pt_tokenizer, pt_tokenizer_free>>;
using StreamHandle = std::unique_ptr<pt_stream, RustDeleter<pt_stream, pt_stream_free>>;
using GrammarFactoryHandle =
    std::unique_ptr<pt_grammar_factory, RustDeleter<pt_grammar_factory, pt_grammar_factory_free>>;
using MatcherHandle = std::unique_ptr<pt_matcher, RustDeleter<pt_matcher, pt_matcher_free>>;
using TemplateHandle = std::unique_ptr<pt_template, RustDeleter<pt_template, pt_template_free>>;

}  // namespace pagoda::text::internal
