#include "support/tensorflow_files.h"

#include <ATen/ATen.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <leveldb/env.h>
#include <leveldb/options.h>
#include <leveldb/table_builder.h>

#include <memory>
#include <stdexcept>

#include "osprey/base/crc32c.h"
#include "osprey/records/tensorflow_checkpoint.pb.h"
#include "support/temp_dir.h"

namespace osprey::testing {

void write_table(const std::filesystem::path& file, const std::map<std::string, std::string>& entries) {
  leveldb::WritableFile* opened = nullptr;
  if (!leveldb::Env::Default()->NewWritableFile(file.string(), &opened).ok()) throw std::runtime_error(file.string());
  const std::unique_ptr<leveldb::WritableFile> out(opened);
  leveldb::Options options;
  options.compression = leveldb::kNoCompression;
  leveldb::TableBuilder table(options, out.get());
  for (const auto& [key, value] : entries) table.Add(key, value);
  if (!table.Finish().ok() || !out->Close().ok()) throw std::runtime_error(file.string());
}

void write_tensorflow(const std::filesystem::path& prefix, const std::vector<TensorFlowVariable>& variables) {
  std::string data;
  std::map<std::string, std::string> entries;
  records::BundleHeader header;
  header.set_num_shards(1);
  entries[""] = header.SerializeAsString();
  const auto add = [&](const std::string& key, records::BundleEntry entry, std::string_view bytes) {
    entry.set_offset(static_cast<int64_t>(data.size()));
    entry.set_size(static_cast<int64_t>(bytes.size()));
    entry.set_crc32c(masked_crc32c(bytes));
    entries[key] = entry.SerializeAsString();
    data += bytes;
  };

  records::TrackableObjectGraph graph;
  for (const TensorFlowVariable& variable : variables) {
    const at::Tensor values = variable.values.contiguous();
    records::BundleEntry entry;
    entry.set_dtype(1);  // DT_FLOAT
    for (const int64_t size : values.sizes()) entry.mutable_shape()->add_dim()->set_size(size);
    add(variable.key.empty() ? variable.name : variable.key, entry,
        {static_cast<const char*>(values.const_data_ptr()), values.nbytes()});
    if (variable.key.empty()) continue;
    auto& attribute = *graph.add_nodes()->add_attributes();
    attribute.set_name("VARIABLE_VALUE");
    attribute.set_full_name(variable.name);
    attribute.set_checkpoint_key(variable.key);
  }
  if (graph.nodes_size() > 0) {
    std::string text;
    {
      google::protobuf::io::StringOutputStream stream(&text);
      google::protobuf::io::CodedOutputStream out(&stream);
      out.WriteVarint64(graph.ByteSizeLong());
      out.WriteLittleEndian32(0);  // the checksum of the length, which nobody reads
      graph.SerializeToCodedStream(&out);
    }
    records::BundleEntry entry;
    entry.set_dtype(7);  // DT_STRING
    add("_CHECKPOINTABLE_OBJECT_GRAPH", entry, text);
  }
  write_file(prefix.string() + ".data-00000-of-00001", data);
  write_table(prefix.string() + ".index", entries);
}

}  // namespace osprey::testing
