#include "model/config.h"

#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/check.h"

namespace pagoda::model {

namespace {

constexpr std::array<std::pair<Architecture, std::string_view>, 12> kNames = {
    {{Architecture::kLlama, "llama"},
     {Architecture::kMistral, "mistral"},
     {Architecture::kQwen2, "qwen2"},
     {Architecture::kQwen3, "qwen3"},
     {Architecture::kGemma2, "gemma2"},
     {Architecture::kGemma3, "gemma3"},
     {Architecture::kPhi3, "phi3"},
     {Architecture::kGranite, "granite"},
     {Architecture::kStarcoder2, "starcoder2"},
     {Architecture::kGpt2, "gpt2"},
     {Architecture::kMixtral, "mixtral"},
     {Architecture::kQwen3Moe, "qwen3_moe"}}};

}  // namespace

std::string_view architecture_name(Architecture architecture) {
  for (const auto& [known, name] : kNames) {
    if (known == architecture) return name;
  }
  return "?";
}

std::string supported_architectures() {
  std::string text;
  for (const auto& [known, name] : kNames) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

namespace {

// Llama 3.1: low frequencies are divided by `factor`, high ones stay, those between are blended by
// wavelength.
double llama3_frequency(const RopeConfig& rope, double frequency) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const auto original = static_cast<double>(rope.original_max_positions);
  if (wavelength > original / rope.low_freq_factor) return frequency / rope.factor;
  if (wavelength < original / rope.high_freq_factor) return frequency;
  const double kept =
      (original / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - kept) * frequency / rope.factor + kept * frequency;
}

}  // namespace

void choose_long_rope(RopeConfig& rope, int64_t max_context) {
  if (rope.scaling != RopeConfig::Scaling::kLongRope) return;
  rope.freq_factors = max_context > rope.original_max_positions ? rope.long_factors : rope.short_factors;
  rope.scaling = RopeConfig::Scaling::kNone;
}

std::vector<double> rope_inverse_frequencies(const RopeConfig& rope, int rotary_dim) {
  PAGODA_CHECK(rotary_dim > 0 && rotary_dim % 2 == 0, "rotary_dim {}", rotary_dim);
  const auto pairs = static_cast<size_t>(rotary_dim / 2);
  PAGODA_CHECK(rope.freq_factors.empty() || rope.freq_factors.size() == pairs, "{} factors for {} pairs",
               rope.freq_factors.size(), pairs);
  std::vector<double> frequencies(pairs);
  for (size_t i = 0; i < pairs; ++i) {
    double frequency = std::pow(rope.theta, -static_cast<double>(2 * i) / rotary_dim);
    switch (rope.scaling) {
      case RopeConfig::Scaling::kNone:
        break;
      case RopeConfig::Scaling::kLongRope:
        PAGODA_CHECK(false, "the factors have not been chosen");
      case RopeConfig::Scaling::kLinear:
        frequency /= rope.factor;
        break;
      case RopeConfig::Scaling::kLlama3:
        frequency = llama3_frequency(rope, frequency);
        break;
    }
    if (!rope.freq_factors.empty()) frequency /= static_cast<double>(rope.freq_factors[i]);
    frequencies[i] = frequency;
  }
  return frequencies;
}

}  // namespace pagoda::model
