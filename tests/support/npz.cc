#include "support/npz.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace pagoda::testing_support {
namespace {

template <class T>
T read(const std::vector<uint8_t>& data, size_t at) {
  if (at + sizeof(T) > data.size()) throw std::runtime_error("npz: truncated");
  T value;
  std::memcpy(&value, data.data() + at, sizeof(T));
  return value;
}

NpyArray parse_npy(const uint8_t* data, size_t size) {
  if (size < 10 || std::memcmp(data, "\x93NUMPY", 6) != 0) throw std::runtime_error("npy: bad magic");
  const bool v1 = data[6] == 1;
  const size_t header_at = v1 ? 10 : 12;
  uint32_t header_size = 0;
  std::memcpy(&header_size, data + 8, v1 ? 2 : 4);
  const std::string header(reinterpret_cast<const char*>(data) + header_at, header_size);
  NpyArray array;
  const size_t descr = header.find("'descr': '") + 10;
  array.dtype = header.substr(descr, header.find('\'', descr) - descr);
  if (header.find("'fortran_order': False") == std::string::npos)
    throw std::runtime_error("npy: not C order");
  size_t at = header.find("'shape': (") + 10;
  for (const size_t end = header.find(')', at); at < end;) {
    const size_t stop = std::min(header.find(',', at), end);
    const std::string number = header.substr(at, stop - at);
    if (number.find_first_of("0123456789") != std::string::npos) array.shape.push_back(std::stoll(number));
    at = stop + 1;
  }
  array.bytes.assign(data + header_at + header_size, data + size);
  return array;
}

}  // namespace

std::map<std::string, NpyArray> read_npz(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path);
  const std::vector<uint8_t> data((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::map<std::string, NpyArray> arrays;
  // The central directory at the end gives sizes and offsets even where local headers leave them out.
  size_t end = data.size() < 22 ? 0 : data.size() - 22;
  while (end > 0 && read<uint32_t>(data, end) != 0x06054b50) --end;
  if (read<uint32_t>(data, end) != 0x06054b50) throw std::runtime_error(path + ": no zip directory");
  size_t at = read<uint32_t>(data, end + 16);
  for (int i = 0, count = read<uint16_t>(data, end + 10); i < count; ++i) {
    if (read<uint16_t>(data, at + 10) != 0) throw std::runtime_error(path + ": compressed member");
    const size_t size = read<uint32_t>(data, at + 24), name_size = read<uint16_t>(data, at + 28);
    const size_t extra = read<uint16_t>(data, at + 30), comment = read<uint16_t>(data, at + 32);
    const size_t local = read<uint32_t>(data, at + 42);
    std::string name(reinterpret_cast<const char*>(data.data()) + at + 46, name_size);
    const size_t body = local + 30 + read<uint16_t>(data, local + 26) + read<uint16_t>(data, local + 28);
    if (body + size > data.size()) throw std::runtime_error(path + ": truncated");
    if (name.size() > 4 && name.ends_with(".npy")) name.resize(name.size() - 4);
    arrays[name] = parse_npy(data.data() + body, size);
    at += 46 + name_size + extra + comment;
  }
  return arrays;
}

}  // namespace pagoda::testing_support
