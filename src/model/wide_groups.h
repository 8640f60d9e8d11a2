// Which groups of a matrix's input get 16-bit activations.
//
// Rounding activations to 8 bits per group of 32 costs a small model visibly (SmolLM2-135M: 2.9 % of the
// top-1 tokens change), 16 bits everywhere cost twice the dot products. The error of a group grows with its
// largest value, and a few channels of the residual stream are far above the rest, always the same ones. So
// the model is run once at load over random tokens, and the groups with the largest share of the error become
// wide. The idea of keeping outlier channels in higher precision: Dettmers et al. 2022 (LLM.int8())
// section 3.2.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "kernels/activations.h"
#include "model/input_observer.h"

namespace pagoda::model {

enum class ActivationPrecision : uint8_t {
  kInt8,   // no group is wide
  kMixed,  // the groups that matter
  kInt16,  // all groups
};

// Collects, for every input (named by any address), how much of the rounding error comes from which group.
class GroupStatistics final : public InputObserver {
 public:
  // Adds all rows of coded activations; does nothing for other forms.
  void observe(const void* input, const kernels::Activations& x) override;
  // The round(fraction * groups) groups with the largest shares; all groups of an input never observed.
  kernels::WideGroups choose(const void* input, int64_t depth, double fraction) const;

 private:
  std::map<const void*, std::vector<double>> shares_;
};

// The part of an input's groups that becomes wide under kMixed: where 16 bits bring most for the products
// that they cost. The output head is wide throughout, and so are the last layers of the smallest models.
struct WideFractions {
  double qkv = 1, attention_out = 1, gate_up = 1, down = 1;
};
WideFractions wide_fractions(int layer, int num_layers, int64_t hidden_size);

}  // namespace pagoda::model
