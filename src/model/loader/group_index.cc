#include "model/loader/group_index.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace pagoda::model {

Result<std::vector<int32_t>> read_group_index(const IntegerPart& part, const GroupedShape& shape) {
  std::vector<int32_t> index(static_cast<size_t>(shape.depth));
  PAGODA_CHECK(part.data.size() == index.size() * sizeof(int32_t));
  std::memcpy(index.data(), part.data.data(), part.data.size());
  bool in_order = true, zeros = true;
  for (size_t k = 0; k < index.size(); ++k) {
    if (index[k] < 0 || index[k] >= shape.groups()) {
      return make_error(ErrorKind::kCorruptFile, fmt::format("{}: entry {} is {}, but there are {} groups",
                                                             part.description, k, index[k], shape.groups()));
    }
    in_order &= index[k] == static_cast<int64_t>(k) / shape.group_size;
    zeros &= index[k] == 0;
  }
  if (in_order || zeros) index.clear();
  return index;
}

}  // namespace pagoda::model
