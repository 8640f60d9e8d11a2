// The id that a request carries through logs and answers.
#pragma once

#include <string>
#include <string_view>

namespace pagoda::net {

// `from_client` if it is 1 to 128 visible ASCII characters, else 32 random hexadecimal digits.
std::string choose_request_id(std::string_view from_client);

}  // namespace pagoda::net
