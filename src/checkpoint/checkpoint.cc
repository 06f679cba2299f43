#include "osprey/checkpoint/checkpoint.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "checkpoint/fail.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/scalar_types.h"
#include "osprey/base/atomic_file.h"
#include "osprey/base/crc32c.h"
#include "osprey/base/error.h"

// The layout is described in docs/checkpoint_format.md; little-endian throughout.
namespace osprey::checkpoint {
namespace {

constexpr char kMagic[] = "OSPREYCK", kEnd[] = "OSPREYND";
constexpr uint64_t kAlignment = 64, kFixedHeader = 8 + 8 + 4, kFooter = 4 + 8;

uint64_t aligned(uint64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

std::string_view bytes_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

template <class T>
std::string_view bytes_of_value(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

template <class T>
T value_at(std::string_view bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

at::Tensor stored(const std::filesystem::path& file, std::string_view bytes, const nlohmann::json& entry,
                  uint64_t data) {
  const std::string name = entry.at("name");
  const auto type = scalar_type(entry.at("dtype"));
  if (!type) fail(file, fmt::format("tensor {}: unknown type {}", name, entry.at("dtype").dump()));
  const auto shape = entry.at("shape").get<std::vector<int64_t>>();
  const uint64_t offset = data + entry.at("offset").get<uint64_t>(), size = entry.at("bytes");
  at::Tensor tensor = at::empty(shape, at::TensorOptions(*type));
  if (tensor.nbytes() != size || offset > bytes.size() || size > bytes.size() - offset)
    fail(file, fmt::format("tensor {}: {} bytes at {} do not fit its shape or the file", name, size, offset));
  const std::string_view content = bytes.substr(offset, size);
  const uint32_t expected = entry.at("crc32c"), found = crc32c(content);
  if (expected != found)
    fail(file, fmt::format("tensor {} is damaged: expected checksum {:08x}, found {:08x}", name, expected, found));
  if (size > 0) std::memcpy(tensor.mutable_data_ptr(), content.data(), size);
  return tensor;
}

Checkpoint parsed(const std::filesystem::path& file, std::string_view bytes) {
  if (bytes.size() < kFixedHeader + kFooter || bytes.substr(0, 8) != std::string_view(kMagic, 8))
    fail(file,
         fmt::format("is not a checkpoint of Osprey ({} bytes, which do not begin with {})", bytes.size(), kMagic));
  const uint64_t header_size = value_at<uint64_t>(bytes, 8);
  if (header_size > bytes.size() - kFixedHeader - kFooter)
    fail(file,
         fmt::format("is cut short: a header of {} bytes was expected, the file has {}", header_size, bytes.size()));
  const std::string_view header = bytes.substr(kFixedHeader, header_size);
  const uint32_t expected = value_at<uint32_t>(bytes, 16), found = crc32c(header);
  if (expected != found)
    fail(file, fmt::format("the header is damaged: expected checksum {:08x}, found {:08x}", expected, found));
  try {
    const nlohmann::json description = nlohmann::json::parse(header);
    const int version = description.at("format");
    if (version != 1) fail(file, fmt::format("has format {}, this program reads format 1", version));
    const uint64_t data = aligned(kFixedHeader + header_size), size = description.at("data_bytes");
    if (bytes.size() != data + size + kFooter)
      fail(file,
           fmt::format("is cut short or too long: expected {} bytes, found {}", data + size + kFooter, bytes.size()));
    Checkpoint result;
    result.attributes = description.at("attributes").get<std::map<std::string, std::string>>();
    for (const auto& entry : description.at("tensors"))
      result.tensors.emplace(entry.at("name"), stored(file, bytes, entry, data));
    const std::string_view body = bytes.substr(0, bytes.size() - kFooter);
    const uint32_t whole = value_at<uint32_t>(bytes, body.size()), whole_found = crc32c(body);
    if (whole != whole_found || bytes.substr(bytes.size() - 8) != std::string_view(kEnd, 8))
      fail(file,
           fmt::format("is damaged between its tensors: expected checksum {:08x}, found {:08x}", whole, whole_found));
    return result;
  } catch (const nlohmann::json::exception& error) {
    fail(file, fmt::format("the header cannot be read: {}", error.what()));
  }
}

}  // namespace

int64_t Checkpoint::number(const std::string& name, int64_t otherwise) const {
  const auto found = attributes.find(name);
  return found == attributes.end() ? otherwise : std::stoll(found->second);
}

void write(const std::filesystem::path& file, const Checkpoint& content) {
  nlohmann::json description = {
      {"format", 1}, {"attributes", content.attributes}, {"tensors", nlohmann::json::array()}};
  std::vector<at::Tensor> tensors;
  uint64_t data_bytes = 0;
  for (const auto& [name, tensor] : content.tensors) {
    tensors.push_back(tensor.detach().to(at::kCPU).contiguous());
    const at::Tensor& plain = tensors.back();
    description["tensors"].push_back({{"name", name},
                                      {"dtype", scalar_type_name(plain.scalar_type())},
                                      {"shape", plain.sizes().vec()},
                                      {"offset", data_bytes},
                                      {"bytes", plain.nbytes()},
                                      {"crc32c", crc32c(bytes_of(plain))}});
    data_bytes = aligned(data_bytes + plain.nbytes());
  }
  description["data_bytes"] = data_bytes;
  const std::string header = description.dump();

  AtomicFile out(file);
  uint32_t whole = 0;
  uint64_t written = 0;
  const auto append = [&](std::string_view bytes) {
    out.append(bytes);
    whole = crc32c(bytes, whole);
    written += bytes.size();
  };
  const auto pad = [&] { append(std::string(aligned(written) - written, '\0')); };
  append({kMagic, 8});
  append(bytes_of_value<uint64_t>(header.size()));
  append(bytes_of_value<uint32_t>(crc32c(header)));
  append(header);
  for (const at::Tensor& tensor : tensors) {
    pad();
    append(bytes_of(tensor));
  }
  pad();
  out.append(bytes_of_value<uint32_t>(whole));
  out.append({kEnd, 8});
  out.commit();
}

Checkpoint read(const std::filesystem::path& file) {
  const MappedFile bytes(file);
  return parsed(file, bytes.view());
}

}  // namespace osprey::checkpoint
