#include "train/run_info.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/processors.h"
#include "osprey/base/atomic_file.h"
#include "osprey/base/crc32c.h"
#include "osprey/base/json_text.h"
#include "osprey/base/versions.h"
#include "osprey/data/example_index.h"
#include "train/run_arithmetic.h"

namespace osprey::train {
namespace {

uintmax_t size_of(const std::string& file) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(file, error);
  return error ? 0 : size;
}

nlohmann::ordered_json data_set(const proto::InputReader& reader, const std::string& name) {
  nlohmann::ordered_json result;
  uintmax_t bytes = 0;
  const std::vector<std::string> files = data::input_files(reader, name);
  if (reader.has_annotation_input_reader())
    result["annotations"] = reader.annotation_input_reader().input();
  else
    result["files"] = files;
  for (const std::string& file : files) bytes += size_of(file);
  result["bytes"] = bytes;
  result["fingerprint"] = data_fingerprint(reader, name);
  return result;
}

}  // namespace

std::string data_fingerprint(const proto::InputReader& reader, const std::string& name) {
  uint32_t fingerprint = 0;
  for (const std::string& file : data::input_files(reader, name))
    fingerprint =
        crc32c(fmt::format("{}:{};", std::filesystem::path(file).filename().string(), size_of(file)), fingerprint);
  return fmt::format("{:08x}", fingerprint);
}

std::string run_info(const Assembly& assembly, const JobOptions& options, const data::BatchSource& source,
                     int64_t num_steps) {
  int64_t parameters = 0;
  for (const at::Tensor& parameter : assembly.state.model->parameters()) parameters += parameter.numel();
  nlohmann::ordered_json info;
  for (const Version& version : versions()) info[version.part] = version.number;
  info["command_line"] = options.command_line;
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  info["host"] = host;
  info["processor"] = processor_name();
  info["processors"] = std::thread::hardware_concurrency();
  info["threads"] = at::get_num_threads();
  info["device"] = options.device;
  info["precision"] = name_of(assembly.step.precision);
  info["seed"] = assembly.train().seed();
  info["num_steps"] = num_steps;
  info["batch_size"] = assembly.batch_size;
  info["trainable_parameters"] = parameters;
  info["frozen_variables"] = assembly.frozen;
  info["examples"] = source.num_examples();
  if (assembly.state.skipped.total > 0) info["skipped_batches"] = assembly.state.skipped.total;
  if (assembly.state.rollbacks > 0) info["rollbacks"] = assembly.state.rollbacks;
  if (!options.use_fake_data && !assembly.train_reader().has_custom())
    info["data"] = data_set(assembly.train_reader(), "train_input_reader");
  return json_text(info, 2) + "\n";
}

void note(const std::filesystem::path& file, const std::string& key, int64_t value) {
  std::ifstream in(file);
  auto info = nlohmann::ordered_json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!info.is_object()) return;
  info[key] = value;
  write_whole(file, json_text(info, 2) + "\n");
}

std::string saved_fingerprint(const std::filesystem::path& file) {
  std::ifstream in(file);
  const auto info = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  const auto place = nlohmann::json::json_pointer("/data/fingerprint");
  return info.is_object() && info.contains(place) && info[place].is_string() ? info[place].get<std::string>() : "";
}

}  // namespace osprey::train
