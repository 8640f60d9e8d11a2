// Result<T>: a value or an Error, for everything that a user, a file, the network or a configuration can
// cause. The names follow std::expected (C++23), which GCC 12 does not have in C++20 mode.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace pagoda {

// What went wrong, independent of any transport. api/http maps each kind to an HTTP status and an OpenAI
// error type.
enum class ErrorKind {
  kInvalidArgument,        // a request or flag is wrong; `param` names the field
  kContextLengthExceeded,  // the prompt or prompt + output does not fit the model's context
  kNotFound,               // unknown model or object
  kOverloaded,             // a bounded queue is full; trying again later may work
  kLoading,                // the model is not ready yet
  kShuttingDown,           // the server drains
  kDeadlineExceeded,       // the request's own time limit passed
  kCancelled,              // the client went away or asked to stop
  kUnimplemented,          // the feature exists but is switched off, or the model lacks it
  kCorruptFile,            // a model file contradicts its format
  kUnsupportedModel,       // a well-formed model that this program cannot run
  kIo,                     // the operating system refused
  kInternal,               // a bug; the process lives on
};

// `message` is one sentence for a person: it names the thing, the value and the limit.
struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;
  std::string param;  // the request field or flag at fault; empty when there is none
  std::string code;   // a stable machine-readable code of the wire contract; empty when there is none
};

inline Error make_error(ErrorKind kind, std::string message, std::string param = {}, std::string code = {}) {
  return Error{kind, std::move(message), std::move(param), std::move(code)};
}

template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Error& error() & { return std::get<1>(state_); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool has_value() const noexcept { return !error_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }
  void value() const {}
  Error& error() & { return *error_; }
  const Error& error() const& { return *error_; }
  Error&& error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

namespace internal {
template <class T>
T take_value(Result<T>& result) {
  return std::move(result).value();
}
inline void take_value(Result<void>&) {}
}  // namespace internal

}  // namespace pagoda

// Evaluates to the value of a Result expression, or returns its Error from the enclosing function.
// A statement expression (GCC, Clang), so that it declares no variable in the caller's scope.
// Not behind other parts in a braced list: GCC 12 leaks those when it returns from there.
#define PAGODA_TRY(expression)                                           \
  ({                                                                     \
    auto pagoda_try_result = (expression);                               \
    if (!pagoda_try_result) return std::move(pagoda_try_result).error(); \
    ::pagoda::internal::take_value(pagoda_try_result);                   \
  })
