// Where tests find reference data. `shared` is handed beside the checkout and is absent in a user's clone:
// tests that need it skip with a message. What the suite can't do without lies in tests/data.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace pagoda::testing_support {

// PAGODA_SHARED, else ../shared beside the source tree; nullopt when neither is a folder.
inline std::optional<std::filesystem::path> shared_dir() {
  const char* from_env = std::getenv("PAGODA_SHARED");
  const std::filesystem::path dir = from_env != nullptr
                                        ? std::filesystem::path(from_env)
                                        : std::filesystem::path(PAGODA_SOURCE_DIR).parent_path() / "shared";
  if (!std::filesystem::is_directory(dir)) return std::nullopt;
  return dir;
}

inline std::filesystem::path test_data_dir() {
  return std::filesystem::path(PAGODA_SOURCE_DIR) / "tests" / "data";
}

// Reference results: the handed folder where it is there, else the few that lie in tests/data/golden.
inline std::filesystem::path golden_dir() {
  const auto shared = shared_dir();
  return shared ? *shared / "golden" : test_data_dir() / "golden";
}

// A downloaded model, or nullopt: PAGODA_MODELS, else ~/.cache/pagoda/models.
inline std::optional<std::filesystem::path> model_file(const std::string& name) {
  const char* from_env = std::getenv("PAGODA_MODELS");
  const char* home = std::getenv("HOME");
  const std::filesystem::path dir =
      from_env != nullptr ? std::filesystem::path(from_env)
                          : std::filesystem::path(home != nullptr ? home : "/root") / ".cache/pagoda/models";
  if (!std::filesystem::exists(dir / name)) return std::nullopt;
  return dir / name;
}

}  // namespace pagoda::testing_support
