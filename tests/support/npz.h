// Reads uncompressed .npz files (zip of .npy, C order, little-endian), as the golden data stores them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace pagoda::testing_support {

struct NpyArray {
  std::vector<int64_t> shape;
  std::string dtype;  // "<f4", "<i4", "<f8", "<i8", "|b1", ...
  std::vector<uint8_t> bytes;
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(bytes.data());
  }
  int64_t size() const {
    int64_t n = 1;
    for (const int64_t d : shape) n *= d;
    return n;
  }
};

// Throws std::runtime_error with the path for anything it can't read: tests fail loudly.
std::map<std::string, NpyArray> read_npz(const std::string& path);

}  // namespace pagoda::testing_support
