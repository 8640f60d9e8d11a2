// The two ends of a batch: lines of requests come from a file or pipe, lines of answers go to one.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/result.h"

namespace pagoda::http {

// Reads lines of bounded length. Does not own the descriptor.
class LineReader {
 public:
  enum class Next : uint8_t {
    kLine,
    kTooLong,  // it was skipped
    kNotYet,   // nothing came in the time given
    kEnd,
  };

  LineReader(int fd, size_t max_line_bytes) : fd_(fd), max_line_bytes_(max_line_bytes) {}

  // Without the line's end; blank lines are skipped, but count. kIo when reading fails.
  Result<Next> next(std::string& line, std::chrono::milliseconds wait);
  int64_t line_number() const { return line_number_; }  // of the line returned last; from 1

 private:
  enum class Fill : uint8_t { kData, kNotYet, kEnd };
  Result<Fill> fill(std::chrono::milliseconds wait);

  const int fd_;
  const size_t max_line_bytes_;
  std::string buffer_;
  size_t begin_ = 0, searched_ = 0;  // of what is left in the buffer; no line end before `searched_`
  bool discarding_ = false, ended_ = false;
  int64_t line_number_ = 0;
};

// A file of answers that grows by whole lines. Opened again, it tells what was answered before, so that a
// batch that was killed goes on where it was.
class AnswerFile {
 public:
  AnswerFile() = default;
  ~AnswerFile();
  AnswerFile(AnswerFile&& other) noexcept;
  AnswerFile& operator=(AnswerFile&&) = delete;

  // Reads what is there, unless it is a device or a pipe. A last line that was written in part is cut off.
  // kInvalidArgument, and the file is left alone, when it has anything but answers; kIo, also while another
  // AnswerFile has it open.
  static Result<AnswerFile> open(const std::string& path);
  // Standard output and the like: nothing was answered before. Does not own the descriptor.
  static AnswerFile to_descriptor(int fd);

  // `line` has no end. kIo naming the file.
  Result<void> append(std::string line);

  // Whether the answer that was there before is a good one; nullopt when there was none.
  std::optional<bool> answer(const std::string& custom_id) const {
    const auto found = answers_.find(custom_id);
    return found == answers_.end() ? std::nullopt : std::optional(found->second);
  }
  bool has_failure(int64_t line) const { return failed_lines_.contains(line); }
  int64_t num_ok() const { return num_ok_; }
  int64_t num_failed() const { return num_failed_; }

 private:
  Result<void> read_answers();
  Result<void> note(std::string_view line, int64_t number);

  std::string path_;
  int fd_ = -1;
  bool owned_ = false;
  std::unordered_map<std::string, bool> answers_;  // by custom_id
  std::unordered_set<int64_t> failed_lines_;
  int64_t num_ok_ = 0, num_failed_ = 0;
};

}  // namespace pagoda::http
