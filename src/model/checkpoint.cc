#include "model/checkpoint.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "model/loader/gguf_checkpoint.h"
#include "model/loader/hf_checkpoint.h"
#include "model/loader/model_check.h"
#include "model/loader/quantization_config.h"
#include "model/loader/rounded_source.h"

namespace pagoda::model {
namespace {

// What --quantization asks for.
struct Choice {
  std::string name;                   // as it was given
  std::optional<QuantMethod> method;  // of the files
  std::optional<Rounding> rounding;   // of floats
  bool gguf = false, floats = false;
};

Error wrong_choice(std::string message) {
  return make_error(ErrorKind::kInvalidArgument, std::move(message), "--quantization");
}

Result<Choice> parse_choice(const std::string& name) {
  Choice choice;
  choice.name = name;
  choice.method = quant_method_from_name(name);
  choice.gguf = name == "gguf";
  choice.floats = name == "bf16" || name == "fp16";
  if (name == "int8") choice.rounding = Rounding::kInt8;
  if (name == "int4") choice.rounding = Rounding::kInt4;
  if (name == "auto" || choice.method || choice.gguf || choice.floats || choice.rounding) return choice;
  return wrong_choice(
      fmt::format("--quantization is '{}'; known are auto, int8, int4, bf16, fp16, gptq, awq, "
                  "compressed-tensors, bitsandbytes and gguf",
                  name));
}

// The first matrix of the model that is stored in codes; empty when all are floats.
Result<std::string> coded_matrix(const Checkpoint& checkpoint) {
  for (const RequiredTensor& tensor : required_tensors(checkpoint.config)) {
    if (tensor.depth == 0) continue;
    const auto reader = PAGODA_TRY(checkpoint.tensors->matrix(tensor.name, tensor.rows, tensor.depth));
    if (reader->scheme().bits != 0) return tensor.name;
  }
  return std::string();
}

Result<void> apply_choice(const Choice& choice, Checkpoint& checkpoint) {
  if (!choice.rounding && !choice.floats) return {};
  if (const auto name = PAGODA_TRY(coded_matrix(checkpoint)); !name.empty()) {
    return wrong_choice(
        fmt::format("{}: --quantization {} is for weights of floats, but {} is quantised already ({})",
                    checkpoint.path, choice.name, name, checkpoint.format));
  }
  if (!choice.rounding) return {};
  checkpoint.tensors = std::make_unique<RoundedSource>(std::move(checkpoint.tensors), *choice.rounding);
  checkpoint.rounding = choice.name;
  checkpoint.format += fmt::format(", {} at load", choice.name);
  return {};
}

Result<Checkpoint> open_as_stored(const std::string& path, const Choice& choice) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    return make_error(ErrorKind::kIo, fmt::format("cannot open {}: {}", path,
                                                  error ? error.message() : "no such file or folder"));
  }
  if (std::filesystem::is_directory(status)) {
    if (choice.gguf) {
      return wrong_choice(fmt::format("{}: --quantization is gguf, but this is a Hugging Face folder", path));
    }
    return open_hf_checkpoint(path, choice.method);
  }
  if (path.ends_with(".safetensors") || path.ends_with(".json")) {
    return make_error(ErrorKind::kUnsupportedModel,
                      fmt::format("{} is one file of a Hugging Face model; name its folder", path));
  }
  if (choice.method) {
    return wrong_choice(
        fmt::format("{}: --quantization is {}, but this is no Hugging Face folder", path, choice.name));
  }
  return open_gguf_checkpoint(path);
}

}  // namespace

Result<Checkpoint> open_checkpoint(const std::string& path, const std::string& quantization) {
  const Choice choice = PAGODA_TRY(parse_choice(quantization));
  Checkpoint checkpoint = PAGODA_TRY(open_as_stored(path, choice));
  PAGODA_TRY(apply_choice(choice, checkpoint));
  return checkpoint;
}

void round_head(Checkpoint& checkpoint) {
  if (!checkpoint.rounding.empty()) return;  // it is among what is rounded already
  checkpoint.tensors = std::make_unique<RoundedSource>(std::move(checkpoint.tensors), std::nullopt);
  checkpoint.rounding = kHeadRounding;
  checkpoint.format += ", head int8 at load";
}

}  // namespace pagoda::model
