// Collects the parts of an output; joins neighbours of the same kind.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/openai/output/output_parser.h"

namespace pagoda::openai {

// The white space around a call belongs to the markup: it is dropped where `drops_space_at_calls`, and space
// waits until it is known what follows it. Other space is kept.
class PartList {
 public:
  // `short_ids`: nine letters and digits, which Mistral's templates insist on.
  PartList(bool drops_space_at_calls, bool one_call, bool short_ids);

  void content(std::string_view text);
  void reasoning(std::string_view text);
  // An empty id is replaced by a new one. With `one_call` later calls are dropped.
  void begin_call(const std::string& name, std::string id = {});
  void arguments(std::string_view text);
  void end_call() { whole_calls_ += dropping_ ? 0 : 1; }
  // At the end of the output.
  void finish();

  std::vector<OutputPart> take();
  bool all_calls_whole() const { return calls_ > 0 && whole_calls_ == calls_; }

 private:
  void add_content(std::string_view text);
  std::string new_id() const;

  const bool drops_space_, one_call_, short_ids_;
  std::vector<OutputPart> parts_;
  std::string space_;        // held back
  bool after_call_ = false;  // nothing but space since
  bool dropping_ = false;    // the current call is one too many
  int calls_ = 0, whole_calls_ = 0;
};

}  // namespace pagoda::openai
