// Ends the middle where it starts to repeat what already stands behind the cursor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pagoda::service {

// The rule, for the first line of the suffix that is not blank, L (blanks at its end don't count):
//
// - L begins a line of the suffix: the middle ends before a line that is L, and before the blank text in
// front
//   of that line as far as the suffix has it, too.
// - L is the rest of the cursor's line: the middle ends before L where a line of it ends with L, unless L
// closes
//   brackets that the middle itself has opened: "f(x" + ")" is no repetition of ")".
//
// A line is over at its line feed or at the end of the output, so a line that only begins like L is never
// cut. Text is held back as long as it may be part of a repetition.
class FimSuffixGuard {
 public:
  // `at_line_start`: the text before the cursor ends with a line feed or is empty.
  FimSuffixGuard(std::string_view suffix, bool at_line_start);

  // The text that is certain. Once it has stopped, nothing follows.
  std::string push(std::string_view piece);
  // The end of the output: what was held back, less a repetition.
  std::string finish();
  // Text that is sent whatever it is.
  std::string pass(std::string_view piece);

  bool stopped() const { return stopped_; }
  const std::string& line() const { return line_; }

 private:
  // A text that is not sent yet ends with a repetition if the line ended now: where it starts.
  std::optional<size_t> repetition() const;
  // Bytes at the end of held_ that can still become a repetition.
  size_t undecided() const;
  bool may_start_line(size_t at) const;
  bool closes_own_brackets(size_t at) const;
  std::string release(size_t bytes);

  std::string line_;   // L; empty: nothing to repeat
  std::string blank_;  // of the suffix, right before L; empty when L is the rest of the cursor's line
  bool own_line_ = false;
  bool line_closes_ = false;  // L closes more brackets than it opens
  std::string held_;          // not sent yet
  bool sent_line_feed_;       // what was sent, or else the text before the cursor, ends a line
  int64_t sent_depth_ = 0;    // brackets opened less closed in what was sent
  bool stopped_ = false;
};

}  // namespace pagoda::service
