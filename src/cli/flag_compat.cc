#include "cli/flag_compat.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <map>
#include <string_view>

namespace pagoda::cli {
namespace {

// Value: whether the flag takes a value.
const std::map<std::string_view, bool>& flags_without_effect() {
  static const std::map<std::string_view, bool> flags = {
      {"--enforce-eager", false},
      {"--swap-space", true},
      {"--cpu-offload-gb", true},
      {"--disable-custom-all-reduce", false},
      {"--max-seq-len-to-capture", true},
      {"--num-gpu-blocks-override", true},
      {"--device", true},
      {"--trust-remote-code", false},
      {"--enable-chunked-prefill", false},   // always on
      {"--enable-auto-tool-choice", false},  // likewise
      {"--enable-reasoning", false},         // likewise
      {"--disable-log-requests", false},     // requests are never logged
      {"--disable-log-stats", false},
  };
  return flags;
}

// Value: why, and what the user can do.
const std::map<std::string_view, std::string_view>& unavailable_flags() {
  static const std::map<std::string_view, std::string_view> flags = {
      {"--api-key", "this version checks no keys: keep it on 127.0.0.1 or behind a proxy that does"},
      {"--ssl-keyfile", "this version speaks no TLS: put a proxy in front"},
      {"--ssl-certfile", "this version speaks no TLS: put a proxy in front"},
      {"--override-pooler-config", "give the way of pooling with --pooling-type"},
      {"--pooler-config", "give the way of pooling with --pooling-type"},
      {"--no-enable-chunked-prefill", "long prompts are always run in chunks; see --max-num-batched-tokens"},
      {"--tensor-parallel-size", "one process uses the CPUs of one machine; see --threads"},
      {"--tp", "one process uses the CPUs of one machine; see --threads"},
      {"--enable-lora", "this version has no LoRA adapters"},
  };
  return flags;
}

std::string_view name_of(std::string_view arg) {
  return arg.substr(0, arg.find('='));
}

Error config_error(const std::string& path, const YAML::Mark& mark, const std::string& what) {
  return make_error(ErrorKind::kInvalidArgument,
                    fmt::format("--config {} line {}: {}", path, mark.line + 1, what), "--config");
}

// One `key: value` as arguments: true becomes the bare flag, false its --no- form, a list one argument each.
Result<std::vector<std::string>> config_entry(const std::string& path, const YAML::Node& key,
                                              const YAML::Node& value) {
  std::string flag = "--" + key.as<std::string>();
  for (char& c : flag) c = c == '_' ? '-' : c;
  if (value.IsSequence()) {
    std::vector<std::string> out;
    for (const auto& item : value) {
      if (!item.IsScalar()) return config_error(path, item.Mark(), flag + " must be a list of plain values");
      out.push_back(flag + "=" + item.as<std::string>());
    }
    return out;
  }
  if (!value.IsScalar()) return config_error(path, value.Mark(), flag + " must be a plain value");
  const auto text = value.as<std::string>();
  if (text == "true") return std::vector<std::string>{flag};
  if (text == "false") return std::vector<std::string>{"--no-" + flag.substr(2)};
  return std::vector<std::string>{flag + "=" + text};
}

Result<std::vector<std::string>> read_config(const std::string& path) {
  std::vector<std::string> out;
  try {
    const YAML::Node root = YAML::LoadFile(path);
    if (root.IsNull()) return out;
    if (!root.IsMap()) return config_error(path, root.Mark(), "expected `flag: value` lines");
    for (const auto& entry : root) {
      const auto flags = PAGODA_TRY(config_entry(path, entry.first, entry.second));
      out.insert(out.end(), flags.begin(), flags.end());
    }
  } catch (const YAML::BadFile&) {
    return make_error(ErrorKind::kIo, fmt::format("--config: cannot read {}", path), "--config");
  } catch (const YAML::Exception& e) {
    return config_error(path, e.mark, e.msg);
  }
  return out;
}

}  // namespace

Result<std::vector<std::string>> drop_foreign_flags(const std::vector<std::string>& args,
                                                    std::vector<std::string>& warnings) {
  std::vector<std::string> kept;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string_view name = name_of(args[i]);
    const auto refused = unavailable_flags().find(name);
    // `pagoda generate` has a seed of its own.
    const bool applies = name != "--seed" || args.front() == "serve";
    if (refused != unavailable_flags().end() && applies) {
      return make_error(ErrorKind::kInvalidArgument,
                        fmt::format("{} is not available: {}", name, refused->second), std::string(name));
    }
    const auto ignored = flags_without_effect().find(name);
    if (ignored == flags_without_effect().end()) {
      kept.push_back(args[i]);
      continue;
    }
    warnings.push_back(fmt::format("{} has no effect here", name));
    if (ignored->second && args[i].find('=') == std::string::npos) ++i;  // its value
  }
  return kept;
}

Result<std::vector<std::string>> expand_config_file(const std::vector<std::string>& args) {
  std::vector<std::string> rest, from_file;
  for (size_t i = 0; i < args.size(); ++i) {
    if (name_of(args[i]) != "--config") {
      rest.push_back(args[i]);
      continue;
    }
    std::string path;
    if (const auto equals = args[i].find('='); equals != std::string::npos) {
      path = args[i].substr(equals + 1);
    } else if (i + 1 < args.size()) {
      path = args[++i];
    } else {
      return make_error(ErrorKind::kInvalidArgument, "--config needs a file", "--config");
    }
    const auto flags = PAGODA_TRY(read_config(path));
    from_file.insert(from_file.end(), flags.begin(), flags.end());
  }
  // Behind the subcommand, before its other arguments.
  rest.insert(rest.begin() + (rest.empty() ? 0 : 1), from_file.begin(), from_file.end());
  return rest;
}

}  // namespace pagoda::cli
