#include "checkpoint/tensor_bundle.h"

#include <google/protobuf/io/coded_stream.h>

#include <memory>
#include <vector>

#include "checkpoint/mapped_file.h"
#include "checkpoint/scalar_types.h"
#include "checkpoint/table_file.h"
#include "checkpoint/tensorflow_tensor.h"
#include "osprey/base/crc32c.h"

namespace osprey::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr const char* kObjectGraph = "_CHECKPOINTABLE_OBJECT_GRAPH";

/// The files that hold the values, opened when first asked for.
class DataFiles {
 public:
  DataFiles(fs::path prefix, int32_t count) : prefix_(std::move(prefix)), files_(static_cast<size_t>(count)) {}

  fs::path name(int32_t shard) const {
    return fmt::format("{}.data-{:05d}-of-{:05d}", prefix_.string(), shard, files_.size());
  }

  /// The bytes of an entry.
  ///
  /// throws  CheckpointError: there is no such file, or it ends before
  std::string_view bytes(const std::string& key, const records::BundleEntry& entry) {
    const int32_t shard = entry.shard_id();
    if (shard < 0 || static_cast<size_t>(shard) >= files_.size())
      fail(prefix_, fmt::format("tensor {} is said to lie in file {} of {}", key, shard, files_.size()));
    if (files_[shard] == nullptr) files_[shard] = std::make_unique<MappedFile>(name(shard));
    const std::string_view all = files_[shard]->view();
    const auto offset = static_cast<uint64_t>(entry.offset()), size = static_cast<uint64_t>(entry.size());
    if (offset > all.size() || size > all.size() - offset)
      fail(name(shard),
           fmt::format("is cut short: tensor {} has {} bytes at {}, the file has {}", key, size, offset, all.size()));
    return all.substr(offset, size);
  }

 private:
  fs::path prefix_;
  std::vector<std::unique_ptr<MappedFile>> files_;
};

at::Tensor read_tensor(DataFiles& files, const std::string& key, const records::BundleEntry& entry,
                       c10::ScalarType type) {
  const std::string_view bytes = files.bytes(key, entry);
  const uint32_t expected = entry.crc32c(), found = masked_crc32c(bytes);
  if (expected != found)
    fail(files.name(entry.shard_id()),
         fmt::format("tensor {} is damaged: expected checksum {:08x}, found {:08x}", key, expected, found));
  return tensor_of(files.name(entry.shard_id()), key, entry.shape(), type, bytes);
}

/// The one text of a tensor of texts, before which stand its length and a checksum of that.
std::string read_text(DataFiles& files, const std::string& key, const records::BundleEntry& entry) {
  const std::string_view bytes = files.bytes(key, entry);
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                                            static_cast<int>(bytes.size()));
  uint64_t length = 0;
  std::string text;
  if (!in.ReadVarint64(&length) || !in.Skip(sizeof(uint32_t)) || length > bytes.size() ||
      !in.ReadString(&text, static_cast<int>(length)))
    fail(files.name(entry.shard_id()), fmt::format("tensor {} is damaged: its text ends early", key));
  return text;
}

}  // namespace

TensorBundle read_bundle(const fs::path& prefix) {
  const fs::path index = prefix.string() + ".index";
  TensorBundle result;
  std::unique_ptr<DataFiles> files;
  for_each_entry(index, [&](std::string_view key, std::string_view value) {
    if (key.empty()) {  // the first one
      const auto header = message_of<records::BundleHeader>(index, key, value);
      if (header.endianness() != records::BundleHeader::LITTLE)
        fail(index, "was written by a machine whose numbers begin with their highest byte, which is not supported");
      if (header.num_shards() < 1) fail(index, fmt::format("is damaged: {} data files", header.num_shards()));
      files = std::make_unique<DataFiles>(prefix, header.num_shards());
      return;
    }
    if (files == nullptr) fail(index, "is damaged: it does not begin with a header");
    const std::string name(key);
    const auto entry = message_of<records::BundleEntry>(index, key, value);
    if (entry.slices_size() > 0)
      fail(index, fmt::format("tensor {} is stored in slices (a partitioned variable), which is not supported", name));
    if (const auto type = scalar_type_in_tensorflow(entry.dtype()))
      result.tensors.emplace(name, read_tensor(*files, name, entry, *type));
    else if (name == kObjectGraph)
      result.object_graph = read_text(*files, name, entry);
  });
  return result;
}

}  // namespace osprey::checkpoint
