#include "model/config.h"

#include <cmath>
#include <numbers>

#include "base/check.h"

namespace pagoda::model {

std::string_view architecture_name(Architecture architecture) {
  switch (architecture) {
    case Architecture::kLlama:
      return "llama";
    case Architecture::kMistral:
      return "mistral";
    case Architecture::kQwen2:
      return "qwen2";
    case Architecture::kQwen3:
      return "qwen3";
    case Architecture::kGemma3:
      return "gemma3";
  }
  return "?";
}

std::string supported_architectures() {
  return "llama, mistral, qwen2, qwen3, gemma3";
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
