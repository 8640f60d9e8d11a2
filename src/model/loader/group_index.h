// g_idx: which group each column of a matrix belongs to (act-order of GPTQ, desc_act).
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "model/loader/grouped_matrix.h"
#include "model/loader/tensor_parts.h"

namespace pagoda::model {

// Empty when the columns are in the order of their groups, which is also what a g_idx of zeros means: files
// without act-order carry one. kCorruptFile for an entry that is no group.
Result<std::vector<int32_t>> read_group_index(const IntegerPart& part, const GroupedShape& shape);

}  // namespace pagoda::model
