#include "api/http/batch_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "api/openai/batch_line.h"

namespace pagoda::http {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;
// An answer with the scores of a long output has some megabytes.
constexpr size_t kMaxAnswerBytes = size_t{1} << 30;

// How every line of an answer file begins.
constexpr std::string_view kAnswerStart = R"({"id":"batch_req_)";

bool may_be_cut_answer(std::string_view line) {
  const size_t length = std::min(line.size(), kAnswerStart.size());
  return line.substr(0, length) == kAnswerStart.substr(0, length);
}

Error io_error(const std::string& what) {
  return make_error(ErrorKind::kIo, fmt::format("{}: {}", what, std::strerror(errno)));
}

}  // namespace

Result<LineReader::Fill> LineReader::fill(std::chrono::milliseconds wait) {
  pollfd source{.fd = fd_, .events = POLLIN, .revents = 0};
  const int ready = poll(&source, 1, static_cast<int>(wait.count()));
  if (ready == 0 || (ready < 0 && errno == EINTR)) return Fill::kNotYet;
  if (ready < 0) return io_error("waiting for the input failed");
  if (begin_ > 0) {
    buffer_.erase(0, begin_);
    searched_ -= begin_;
    begin_ = 0;
  }
  const size_t old = buffer_.size();
  buffer_.resize(old + kReadBytes);
  const ssize_t count = read(fd_, buffer_.data() + old, kReadBytes);
  buffer_.resize(old + (count > 0 ? static_cast<size_t>(count) : 0));
  if (count > 0) return Fill::kData;
  if (count == 0) return Fill::kEnd;
  if (errno == EINTR || errno == EAGAIN) return Fill::kNotYet;
  return io_error("reading the input failed");
}

Result<LineReader::Next> LineReader::next(std::string& line, std::chrono::milliseconds wait) {
  for (;;) {
    size_t end = buffer_.find('\n', searched_);
    if (end == std::string::npos && ended_) {
      if (begin_ == buffer_.size() && !discarding_) return Next::kEnd;
      end = buffer_.size();  // the last line has no end
      buffer_.push_back('\n');
    }
    if (end == std::string::npos) {
      searched_ = buffer_.size();
      if (searched_ - begin_ > max_line_bytes_) {
        discarding_ = true;
        begin_ = searched_;
      }
      const Fill filled = PAGODA_TRY(fill(wait));
      if (filled == Fill::kNotYet) return Next::kNotYet;
      ended_ = filled == Fill::kEnd;
      continue;
    }
    std::string_view text = std::string_view(buffer_).substr(begin_, end - begin_);
    begin_ = searched_ = end + 1;
    ++line_number_;
    if (std::exchange(discarding_, false) || text.size() > max_line_bytes_) return Next::kTooLong;
    if (line_number_ == 1 && text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    line = text;
    return Next::kLine;
  }
}

AnswerFile::~AnswerFile() {
  if (owned_) ::close(fd_);
}

AnswerFile::AnswerFile(AnswerFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(other.fd_),
      owned_(std::exchange(other.owned_, false)),
      answers_(std::move(other.answers_)),
      failed_lines_(std::move(other.failed_lines_)),
      num_ok_(other.num_ok_),
      num_failed_(other.num_failed_) {}

AnswerFile AnswerFile::to_descriptor(int fd) {
  AnswerFile file;
  file.path_ = "the output";
  file.fd_ = fd;
  return file;
}

Result<AnswerFile> AnswerFile::open(const std::string& path) {
  AnswerFile file;
  file.path_ = path;
  struct stat info {};
  // A device or a pipe has no answers to read, and could be without an end.
  const bool keeps = stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode);
  file.fd_ = ::open(path.c_str(), (keeps ? O_RDWR : O_WRONLY) | O_CREAT | O_CLOEXEC, 0666);
  if (file.fd_ < 0) return io_error(path);
  file.owned_ = true;
  if (!keeps) return file;
  // Two runs would write over each other. Where a file system knows no locks, nothing is checked.
  if (flock(file.fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return make_error(ErrorKind::kIo, fmt::format("{}: another process is writing to it", path));
  PAGODA_TRY(file.read_answers());
  return file;
}

Result<void> AnswerFile::read_answers() {
  const off_t size = lseek(fd_, 0, SEEK_END);
  if (size < 0 || lseek(fd_, 0, SEEK_SET) < 0) return io_error(path_);
  off_t whole = size;  // behind the end of the last line that has one
  for (char c = 0; whole > 0 && pread(fd_, &c, 1, whole - 1) == 1 && c != '\n';) --whole;
  LineReader reader(fd_, kMaxAnswerBytes);
  std::string line, last;  // one line is held back, as the last one may be a part
  int64_t number = 0;
  for (;;) {
    const auto next = PAGODA_TRY(reader.next(line, std::chrono::milliseconds(0)));
    if (next == LineReader::Next::kEnd) break;
    if (next == LineReader::Next::kNotYet) continue;
    if (next == LineReader::Next::kTooLong) line.clear();
    if (number > 0) PAGODA_TRY(note(last, number));
    last.swap(line);
    number = reader.line_number();
  }
  if (number > 0 && (whole == size || openai::parse_answered_line(last) || !may_be_cut_answer(last))) {
    PAGODA_TRY(note(last, number));
    if (whole < size && ::write(fd_, "\n", 1) != 1) return io_error(path_);  // only its end is missing
  } else if (whole < size) {
    if (ftruncate(fd_, whole) != 0 || lseek(fd_, 0, SEEK_END) < 0) return io_error(path_);
  }
  return {};
}

Result<void> AnswerFile::note(std::string_view line, int64_t number) {
  const auto answer = openai::parse_answered_line(line);
  if (!answer) {
    return make_error(
        ErrorKind::kInvalidArgument,
        fmt::format("{}, line {}, is no answer of a batch; write to another file", path_, number));
  }
  if (answer->line > 0) {
    failed_lines_.insert(answer->line);
  } else {
    answers_.emplace(answer->custom_id, answer->ok);
  }
  ++(answer->ok ? num_ok_ : num_failed_);
  return {};
}

Result<void> AnswerFile::append(std::string line) {
  line.push_back('\n');
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t count = ::write(fd_, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error(path_);
    rest.remove_prefix(static_cast<size_t>(count));
  }
  return {};
}

}  // namespace pagoda::http
