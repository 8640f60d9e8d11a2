// Builds small model files in memory, correct or broken on purpose, and puts them on disk for a test.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pagoda::model::test {

template <class T>
std::string le(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}
inline std::string gguf_text(std::string_view text) {
  return le<uint64_t>(text.size()) + std::string(text);
}

// Key and value, type in front of the value.
inline std::string gguf_kv(std::string_view key, uint32_t type, const std::string& value) {
  return gguf_text(key) + le(type) + value;
}
inline std::string gguf_info(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                             uint64_t offset) {
  std::string bytes = gguf_text(name) + le(static_cast<uint32_t>(dims.size()));
  for (const uint64_t dim : dims) bytes += le(dim);
  return bytes + le(type) + le(offset);
}

// A GGUF file from ready-made parts; counts and magic can be wrong.
struct GgufParts {
  std::string magic = "GGUF", version = le<uint32_t>(3);
  std::vector<std::string> keys, infos;
  std::string data;
  int64_t num_keys = -1, num_tensors = -1;  // -1: the true ones
  bool pad = true;

  std::string bytes() const {
    std::string out = magic + version;
    out += le<uint64_t>(num_tensors < 0 ? infos.size() : static_cast<uint64_t>(num_tensors));
    out += le<uint64_t>(num_keys < 0 ? keys.size() : static_cast<uint64_t>(num_keys));
    for (const auto& key : keys) out += key;
    for (const auto& info : infos) out += info;
    if (pad) out.resize((out.size() + 31) / 32 * 32);
    return out + data;
  }
};

// A GGUF file with typed keys that tests may replace or erase.
class GgufBuilder {
 public:
  GgufBuilder& raw(const std::string& key, uint32_t type, std::string value) {
    erase(key);
    keys_.emplace_back(key, le(type) + std::move(value));
    return *this;
  }
  GgufBuilder& u32(const std::string& key, uint32_t value) { return raw(key, 4, le(value)); }
  GgufBuilder& i32(const std::string& key, int32_t value) { return raw(key, 5, le(value)); }
  GgufBuilder& f32(const std::string& key, float value) { return raw(key, 6, le(value)); }
  GgufBuilder& boolean(const std::string& key, bool value) {
    return raw(key, 7, std::string(1, value ? '\1' : '\0'));
  }
  GgufBuilder& text(const std::string& key, std::string_view value) { return raw(key, 8, gguf_text(value)); }
  GgufBuilder& u16(const std::string& key, uint16_t value) { return raw(key, 2, le(value)); }
  GgufBuilder& texts(const std::string& key, const std::vector<std::string>& values) {
    std::string bytes = le<uint32_t>(8) + le<uint64_t>(values.size());
    for (const auto& value : values) bytes += gguf_text(value);
    return raw(key, 9, bytes);
  }
  GgufBuilder& floats(const std::string& key, const std::vector<float>& values) {
    return array(key, 6, values);
  }
  GgufBuilder& i32s(const std::string& key, const std::vector<int32_t>& values) {
    return array(key, 5, values);
  }
  GgufBuilder& bools(const std::string& key, const std::vector<uint8_t>& values) {
    return array(key, 7, values);
  }
  GgufBuilder& erase(const std::string& key) {
    std::erase_if(keys_, [&](const auto& entry) { return entry.first == key; });
    return *this;
  }

  // dims: innermost first, as in the file.
  GgufBuilder& tensor(const std::string& name, std::vector<uint64_t> dims, uint32_t type, std::string data) {
    erase_tensor(name);
    tensors_.push_back({name, std::move(dims), type, std::move(data)});
    return *this;
  }
  // An F32 tensor whose values count up from `first` in steps of 1.
  GgufBuilder& f32_tensor(const std::string& name, std::vector<uint64_t> dims, float first = 0) {
    uint64_t count = 1;
    for (const uint64_t dim : dims) count *= dim;
    std::string data;
    for (uint64_t i = 0; i < count; ++i) data += le(first + static_cast<float>(i));
    return tensor(name, std::move(dims), 0, std::move(data));
  }
  GgufBuilder& erase_tensor(const std::string& name) {
    std::erase_if(tensors_, [&](const auto& tensor) { return tensor.name == name; });
    return *this;
  }

  std::string bytes() const {
    GgufParts parts;
    for (const auto& [key, value] : keys_) parts.keys.push_back(gguf_text(key) + value);
    for (const auto& tensor : tensors_) {
      parts.infos.push_back(gguf_info(tensor.name, tensor.dims, tensor.type, parts.data.size()));
      parts.data += tensor.data;
      parts.data.resize((parts.data.size() + 31) / 32 * 32);
    }
    return parts.bytes();
  }

 private:
  template <class T>
  GgufBuilder& array(const std::string& key, uint32_t element, const std::vector<T>& values) {
    std::string bytes = le(element) + le<uint64_t>(values.size());
    for (const T value : values) bytes += le(value);
    return raw(key, 9, bytes);
  }
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;
    uint32_t type;
    std::string data;
  };
  std::vector<std::pair<std::string, std::string>> keys_;
  std::vector<Tensor> tensors_;
};

// A complete GGUF model of one layer without a vocabulary: hidden 32, 2 heads of 16, 1 key-value head,
// vocabulary 8.
inline GgufBuilder tiny_gguf(const std::string& arch = "llama") {
  GgufBuilder file;
  file.text("general.architecture", arch);
  file.u32(arch + ".context_length", 64).u32(arch + ".embedding_length", 32).u32(arch + ".block_count", 1);
  file.u32(arch + ".feed_forward_length", 48).u32(arch + ".attention.head_count", 2);
  file.u32(arch + ".attention.head_count_kv", 1).f32(arch + ".attention.layer_norm_rms_epsilon", 1e-5f);
  file.f32_tensor("token_embd.weight", {32, 8}).f32_tensor("output_norm.weight", {32});
  file.f32_tensor("output.weight", {32, 8});
  const std::string blk = "blk.0.";
  file.f32_tensor(blk + "attn_norm.weight", {32}).f32_tensor(blk + "ffn_norm.weight", {32});
  file.f32_tensor(blk + "attn_q.weight", {32, 32}).f32_tensor(blk + "attn_k.weight", {32, 16});
  file.f32_tensor(blk + "attn_v.weight", {32, 16}).f32_tensor(blk + "attn_output.weight", {32, 32});
  file.f32_tensor(blk + "ffn_gate.weight", {32, 48}).f32_tensor(blk + "ffn_up.weight", {32, 48});
  file.f32_tensor(blk + "ffn_down.weight", {48, 32});
  return file;
}

// "{...}" with its length in front, then the data.
inline std::string safetensors_bytes(std::string_view header, std::string_view data = {}) {
  return le<uint64_t>(header.size()) + std::string(header) + std::string(data);
}

// One tensor of a safetensors file, its data as bytes.
struct RawTensor {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::string data;
};
template <class T>
std::string le_list(const std::vector<T>& values) {
  std::string bytes;
  for (const T value : values) bytes += le(value);
  return bytes;
}
inline std::string raw_safetensors(const std::vector<RawTensor>& tensors) {
  std::string header, data;
  for (const RawTensor& tensor : tensors) {
    std::string dims;
    for (const int64_t dim : tensor.shape) dims += (dims.empty() ? "" : ",") + std::to_string(dim);
    header += (header.empty() ? "{\"" : ",\"") + tensor.name + R"(":{"dtype":")" + tensor.dtype +
              R"(","shape":[)" + dims + R"(],"data_offsets":[)" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + tensor.data.size()) + "]}";
    data += tensor.data;
  }
  return safetensors_bytes(header + "}", data);
}

// A safetensors file of F32 tensors that count up from 0, placed in the given order.
inline std::string f32_safetensors(const std::vector<std::pair<std::string, std::vector<int64_t>>>& tensors) {
  std::string header, data;
  for (const auto& [name, shape] : tensors) {
    int64_t count = 1;
    std::string dims;
    for (const int64_t dim : shape) {
      count *= dim;
      dims += (dims.empty() ? "" : ",") + std::to_string(dim);
    }
    const size_t begin = data.size();
    for (int64_t i = 0; i < count; ++i) data += le(static_cast<float>(i));
    header += (header.empty() ? "{\"" : ",\"") + name + R"(":{"dtype":"F32","shape":[)" + dims +
              R"(],"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(data.size()) + "]}";
  }
  return safetensors_bytes(header + "}", data);
}

// A folder of its own under the system's temporary one, removed at the end.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "pagoda_model_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  std::string path() const { return path_.string(); }
  std::string write(const std::string& name, std::string_view content) const {
    const std::string file = (path_ / name).string();
    std::ofstream(file, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
    return file;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace pagoda::model::test
