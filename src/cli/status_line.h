// One line on standard error that tells how far a command is: rewritten in place on a terminal, printed now
// and then elsewhere.
#pragma once

#include <chrono>
#include <string>

namespace pagoda::cli {

// "[=====>    ] ", with a blank behind it; empty for width 0.
std::string progress_bar(double fraction, int width);

// "0:07", "12:05", "1:02:05".
std::string format_duration(double seconds);

// Not thread-safe.
class StatusLine {
 public:
  StatusLine();

  // How often it is worth to show something new.
  std::chrono::milliseconds interval() const;
  int bar_width() const;  // for progress_bar(); 0 where there is no terminal
  // Takes the place of what was shown last.
  void show(const std::string& text) const;
  // A line that stays.
  void print(const std::string& text) const;
  void clear() const;

 private:
  const bool is_terminal_;
};

// Control codes of a text that came from an input would reach the terminal: each becomes a blank.
std::string without_control_codes(std::string text);

}  // namespace pagoda::cli
