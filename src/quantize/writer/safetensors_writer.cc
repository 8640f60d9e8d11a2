#include "quantize/writer/safetensors_writer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "quantize/writer/output_file.h"

namespace pagoda::quantize {

OutTensor tensor_of(std::string name, std::string dtype, std::vector<int64_t> shape,
                    std::vector<uint8_t> bytes) {
  OutTensor tensor{std::move(name), std::move(dtype), std::move(shape), bytes.size(), {}};
  tensor.write = [bytes = std::move(bytes)](const ByteSink& sink) { return sink(bytes); };
  return tensor;
}

Result<void> write_safetensors(const std::string& path, std::span<const OutTensor> tensors) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};  // transformers refuses files without it
  uint64_t end = 0;
  for (const OutTensor& tensor : tensors) {
    const uint64_t begin = std::exchange(end, end + tensor.bytes);
    header[tensor.name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  OutputFile file = PAGODA_TRY(OutputFile::create(path));
  std::string length;
  for (int byte = 0; byte < 8; ++byte) length += static_cast<char>(uint64_t{text.size()} >> (8 * byte));
  PAGODA_TRY(file.append(length + text));
  for (const OutTensor& tensor : tensors) {
    const uint64_t begin = file.size();
    PAGODA_TRY(tensor.write([&](std::span<const uint8_t> bytes) { return file.append(bytes); }));
    PAGODA_CHECK(file.size() - begin == tensor.bytes, "{}: {} bytes of {}", tensor.name, file.size() - begin,
                 tensor.bytes);
  }
  return file.commit();
}

}  // namespace pagoda::quantize
