#include "net/request_parser.h"

#include <fmt/format.h>

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/parser.hpp>
#include <cctype>
#include <limits>
#include <stdexcept>

#include "base/check.h"
#include "base/log.h"
#include "net/ascii.h"

namespace pagoda::net {

namespace {

// An assertion inside Boost, see boost::assertion_failed below.
struct BoostAssertion : std::logic_error {
  using std::logic_error::logic_error;
};

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

// Like Beast's string_body, but it doesn't reserve the whole Content-Length up front: a hundred clients that
// announce large bodies and send nothing cost nothing.
struct GrowingBody {
  using value_type = std::string;
  static std::uint64_t size(const value_type& body) { return body.size(); }

  class reader {
   public:
    template <bool is_request, class Fields>
    reader(http::header<is_request, Fields>&, value_type& body) : body_(body) {}

    void init(const boost::optional<std::uint64_t>&, error_code& ec) { ec = {}; }

    template <class Buffers>
    size_t put(const Buffers& buffers, error_code& ec) {
      size_t taken = 0;
      for (const auto buffer : boost::beast::buffers_range_ref(buffers)) {
        body_.append(static_cast<const char*>(buffer.data()), buffer.size());
        taken += buffer.size();
      }
      ec = {};
      return taken;
    }

    void finish(error_code& ec) { ec = {}; }

   private:
    value_type& body_;
  };
};

std::string to_string(boost::beast::string_view text) {
  return std::string(text.data(), text.size());
}

HttpFault to_fault(const error_code& ec, size_t max_body_bytes) {
  if (ec == http::error::body_limit) {
    return HttpFault{413, fmt::format("The request body is larger than {} bytes.", max_body_bytes)};
  }
  return HttpFault{400, fmt::format("Malformed HTTP: {}.", ec.message())};
}

// What cannot be a complete chunked body. Beast 1.81 asserts that it sees at least this much when it comes
// back to a last chunk, which "0 CR LF" followed by a pause and one more byte violates.
constexpr size_t kMinChunkedBytes = 5;

}  // namespace

struct RequestParser::Beast {
  size_t max_body_bytes;
  http::request_parser<GrowingBody> parser;
};

RequestParser::RequestParser(size_t max_body_bytes) : beast_(std::make_unique<Beast>()) {
  beast_->max_body_bytes = max_body_bytes;
  beast_->parser.body_limit(max_body_bytes);
  // HeadScanner has the limit; here it must not bite first.
  beast_->parser.header_limit(std::numeric_limits<std::uint32_t>::max());
  beast_->parser.eager(true);
}

RequestParser::~RequestParser() = default;

std::optional<HttpFault> RequestParser::parse_head(std::string_view head) {
  auto& parser = beast_->parser;
  error_code ec;
  try {
    parser.put(asio::buffer(head.data(), head.size()), ec);
  } catch (const std::length_error&) {  // a name or value over 64 KiB, where max_header_bytes allows one
    return HttpFault{431, "A header field is longer than 65535 bytes."};
  } catch (const BoostAssertion& assertion) {
    log::error("Beast: {}", assertion.what());
    return HttpFault{400, "Malformed HTTP."};
  }
  const auto& message = parser.get();
  head_.method = to_string(message.method_string());
  head_.target = to_string(message.target());
  for (const auto& field : message) {
    head_.headers.emplace_back(to_string(field.name_string()), to_string(field.value()));
  }
  head_.http11 = message.version() == 11;
  if (ec && ec != http::error::need_more) {
    head_.has_body = true;
    return to_fault(ec, beast_->max_body_bytes);
  }
  head_.keep_alive = parser.keep_alive();
  head_.has_body = !parser.is_done();
  head_.expect_continue = head_.http11 && head_.has_body && message.count(http::field::expect) > 0;
  return std::nullopt;
}

size_t RequestParser::feed_body(std::string_view data) {
  PAGODA_CHECK(!done() && !body_fault_);
  if (beast_->parser.chunked() && data.size() < kMinChunkedBytes) {
    // Too little for Beast, but enough to see that a first chunk header does not begin with its size.
    const bool at_start = !body_begun_ && !data.empty();
    if (at_start && std::isxdigit(static_cast<unsigned char>(data.front())) == 0) {
      body_fault_ = HttpFault{400, "Malformed HTTP: bad chunk."};
    }
    return 0;
  }
  body_begun_ = true;
  error_code ec;
  size_t taken = 0;
  try {
    taken = beast_->parser.put(asio::buffer(data.data(), data.size()), ec);
  } catch (const std::length_error&) {
    body_fault_ = HttpFault{431, "A trailer field is longer than 65535 bytes."};
    return 0;
  } catch (const BoostAssertion& assertion) {
    log::error("Beast: {}", assertion.what());
    body_fault_ = HttpFault{400, "Malformed HTTP."};
    return 0;
  }
  if (ec && ec != http::error::need_more) body_fault_ = to_fault(ec, beast_->max_body_bytes);
  return taken;
}

bool RequestParser::done() const {
  return beast_->parser.is_done();
}

std::string RequestParser::take_body() {
  return std::move(beast_->parser.get().body());
}

}  // namespace pagoda::net

// The module is compiled with BOOST_ENABLE_ASSERT_HANDLER, so that this runs in place of abort(): an
// assertion of the parser that a client's bytes trigger must cost that client its request and not the process
// its life.
void boost::assertion_failed(const char* expression, const char* function, const char* file, long line) {
  throw pagoda::net::BoostAssertion(
      fmt::format("{}:{}: {}: assertion {} failed", file, line, function, expression));
}
