#include "osprey/checkpoint/tensorflow_checkpoint.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <fstream>

#include "osprey/base/crc32c.h"
#include "osprey/base/error.h"
#include "osprey/checkpoint/directory.h"
#include "osprey/checkpoint/model_weights.h"
#include "osprey/checkpoint/warm_start.h"
#include "osprey/records/tensorflow_checkpoint.pb.h"
#include "support/golden.h"
#include "support/temp_dir.h"
#include "support/tensorflow_files.h"
#include "support/toy_model.h"

namespace osprey::checkpoint {
namespace {

namespace fs = std::filesystem;
using namespace osprey::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::UnorderedElementsAre;

constexpr const char* kNames = "names/model.ckpt";
constexpr const char* kOneFile = "one_file/model.ckpt";
constexpr const char* kObjects = "objects/ckpt-1";

/// Checkpoints that TensorFlow wrote; the program beside them says what they hold.
fs::path written(const std::string& name) { return bundled_data() / "data" / "tensorflow_checkpoints" / name; }

/// A copy of the V2 checkpoint by names, for harm.
fs::path copied(const TempDir& folder) {
  for (const auto& item : fs::directory_iterator(written(kNames).parent_path())) fs::copy(item, folder.path());
  return folder / "model.ckpt";
}

at::Tensor values(int64_t number, at::IntArrayRef shape) {
  return (at::arange(c10::multiply_integers(shape), at::kFloat) + 100 * number).view(shape);
}

ExitCode code_of(const std::function<void()>& action, const ::testing::Matcher<std::string>& message) {
  try {
    action();
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), message);
    return error.exit_code();
  }
  ADD_FAILURE() << "no error";
  return ExitCode::kDone;
}

TEST(TensorFlowCheckpoint, EachFormatIsReadWithItsNamesAveragesAndStep) {
  for (const char* const name : {kNames, kOneFile, kObjects}) {
    SCOPED_TRACE(name);
    const TensorFlowCheckpoint read = read_tensorflow(written(name));
    EXPECT_THAT(read.variables,
                UnorderedElementsAre(Key("net/conv1_weights"), Key("net/conv1_beta"), Key("net/conv2_weights"),
                                     Key("net/conv2_biases"), Key("net/moving_mean"), Key("net/moving_variance")));
    EXPECT_TRUE(at::equal(read.variables.at("net/conv1_weights"), values(0, {3, 3, 3, 6})));
    EXPECT_TRUE(at::equal(read.variables.at("net/moving_variance"), values(5, {6})));
    EXPECT_THAT(read.averages, UnorderedElementsAre(Key("net/conv1_weights"), Key("net/conv2_biases")));
    EXPECT_TRUE(at::equal(read.averages.at("net/conv2_biases"), values(3, {7}) + 0.5));
    EXPECT_EQ(read.step, 12);
  }
}

TEST(TensorFlowCheckpoint, AModelTakesItsWeightsInOurLayout) {
  for (const char* const name : {kNames, kOneFile, kObjects}) {
    SCOPED_TRACE(name);
    const auto model = make_toy_model();
    const WarmStartReport report = warm_start(written(name), *model, {.type = models::RestoreType::kFull});
    EXPECT_EQ(report.parameters_loaded, report.parameters_total);
    EXPECT_EQ(report.variables.size(), models::variables(*model).size()) << "nothing unused";
    const auto of_model = [&] {
      std::map<std::string, at::Tensor> result;
      for (const auto& [variable, tensor] : models::variables(*model)) result[variable] = tensor.detach().clone();
      return result;
    };
    const at::Tensor ours = values(0, {3, 3, 3, 6}).permute({3, 2, 0, 1});
    EXPECT_TRUE(at::equal(of_model().at("net.conv1_weights"), ours));

    EXPECT_EQ(load_model(written(name), *model, /*moving_averages=*/true), 12);
    EXPECT_TRUE(at::equal(of_model().at("net.conv1_weights"), ours + 0.5));
    EXPECT_TRUE(at::equal(of_model().at("net.moving_mean"), values(4, {6})));
    EXPECT_EQ(load_model(written(name), *model, /*moving_averages=*/false), 12);
    EXPECT_TRUE(at::equal(of_model().at("net.conv1_weights"), ours));
  }
}

TEST(TensorFlowCheckpoint, ACounterThatItHasUnderAnotherNameHasCountedMany) {
  const auto model = make_toy_model();
  const at::Tensor steps = model->register_buffer("local_step", at::zeros({}, at::kLong));
  EXPECT_NO_THROW(load_model(written(kNames), *model, false));
  EXPECT_GT(steps.item<int64_t>(), 100'000);
}

TEST(TensorFlowCheckpoint, WhatAModelLacksIsListedByAWarmStartAndLeftByAnEvaluation) {
  const TempDir folder;
  std::vector<TensorFlowVariable> variables;
  for (const auto& [name, tensor] : read_tensorflow(written(kNames)).variables) variables.push_back({name, tensor, ""});
  variables.push_back({"logits/weights", at::zeros({1, 1, 6, 9}), ""});
  write_tensorflow(folder / "more.ckpt", variables);
  const auto model = make_toy_model();
  EXPECT_THAT(warm_start(folder / "more.ckpt", *model, {}).text(), AllOf(HasSubstr("1 unused"), HasSubstr("logits")));
  EXPECT_NO_THROW(load_model(folder / "more.ckpt", *model, false));

  variables.erase(variables.begin());
  write_tensorflow(folder / "less.ckpt", variables);
  EXPECT_EQ(code_of([&] { load_model(folder / "less.ckpt", *model, false); }, HasSubstr("net.conv1_beta")),
            ExitCode::kUsage);
}

TEST(TensorFlowCheckpoint, EveryWayToNameOneIsUnderstood) {
  const TempDir folder;
  const std::string prefix = copied(folder);
  for (const std::string& path : {prefix, prefix + ".index", prefix + ".data-00000-of-00001", folder.path().string()})
    EXPECT_EQ(resolve(path), prefix) << path;
  // Moved since it was written, and by a program that wrote whole paths.
  write_file(folder / "checkpoint", "model_checkpoint_path: \"/gone/model.ckpt\"\n");
  EXPECT_EQ(resolve(folder.path()), prefix);
  EXPECT_EQ(resolve(written("one_file")), written(kOneFile));
  EXPECT_EQ(resolve(written(kOneFile)), written(kOneFile));

  // Without that file, the highest number.
  const TempDir several;
  for (const char* const name : {"ckpt-9", "ckpt-10", "ckpt-2"})
    write_tensorflow(several / name, {{"a", at::zeros({1}), ""}});
  EXPECT_EQ(resolve(several.path()), several / "ckpt-10");

  // An archive with the folder of its checkpoints in it; a saved model.
  const TempDir archive;
  fs::create_directories(archive / "checkpoint");
  write_tensorflow(archive / "checkpoint/ckpt-0", {{"a", at::zeros({1}), ""}});
  EXPECT_EQ(resolve(archive.path()), archive / "checkpoint/ckpt-0");
  write_file(archive / "saved_model/saved_model.pb", "");
  fs::create_directories(archive / "saved_model/variables");
  write_tensorflow(archive / "saved_model/variables/variables", {{"a", at::zeros({1}), ""}});
  EXPECT_EQ(resolve(archive / "saved_model"), archive / "saved_model/variables/variables");
}

TEST(TensorFlowCheckpoint, WhatIsNoneIsSaidSo) {
  const TempDir folder;
  write_file(folder / "junk.index", "x");
  for (const char* const name : {"junk", "junk.index"})
    EXPECT_EQ(code_of([&] { resolve(folder / name); }, AllOf(HasSubstr("TensorFlow"), HasSubstr("no table"))),
              ExitCode::kUsage);
  write_file(folder / "lonely.meta", "x");
  EXPECT_EQ(code_of([&] { resolve(folder / "lonely"); }, HasSubstr("there is no")), ExitCode::kUsage);
  write_file(folder / "frozen.pb", "x");
  EXPECT_EQ(code_of([&] { resolve(folder / "frozen.pb"); }, HasSubstr("graph of TensorFlow")), ExitCode::kUsage);
  write_file(folder / "frozen/saved_model.pb", "x");
  EXPECT_EQ(code_of([&] { resolve(folder / "frozen"); }, HasSubstr("graph of TensorFlow")), ExitCode::kUsage);
}

TEST(TensorFlowCheckpoint, DamageNamesTheFileAndTheTensor) {
  const auto fails = [](const fs::path& prefix, const std::vector<std::string>& words) {
    std::vector<::testing::Matcher<std::string>> parts;
    for (const std::string& word : words) parts.push_back(HasSubstr(word));
    EXPECT_EQ(code_of([&] { read_tensorflow(prefix); }, ::testing::AllOfArray(parts)), ExitCode::kData);
  };
  const std::string data = ".data-00000-of-00001";
  {
    const TempDir folder;
    const fs::path prefix = copied(folder);
    const std::string whole = read_file(prefix.string() + data);
    std::string bytes = whole;
    bytes[8] = static_cast<char>(bytes[8] ^ 1);
    write_file(prefix.string() + data, bytes);
    fails(prefix, {data, "tensor net/conv1_beta is damaged", "expected checksum"});
    write_file(prefix.string() + data, whole.substr(0, 100));
    fails(prefix, {data, "is cut short: tensor"});
    fs::remove(prefix.string() + data);
    fails(prefix, {data, "No such file"});
    std::string index = read_file(prefix.string() + ".index");
    index[20] = static_cast<char>(index[20] ^ 1);
    write_file(prefix.string() + ".index", index);
    fails(prefix, {".index", "cannot be read as a table", "checksum"});
  }
  const TempDir folder;
  const auto with_entry = [&](const records::BundleEntry& entry, const records::BundleHeader& header = {}) {
    records::BundleHeader one = header;
    one.set_num_shards(1);
    write_file(folder / ("c" + data), "12345678");
    write_table(folder / "c.index", {{"", one.SerializeAsString()}, {"a/weights", entry.SerializeAsString()}});
  };
  records::BundleEntry entry;
  entry.set_dtype(1);
  entry.set_size(8);
  entry.mutable_shape()->add_dim()->set_size(3);
  entry.set_crc32c(masked_crc32c("12345678"));
  with_entry(entry);
  fails(folder / "c", {"tensor a/weights: 8 bytes do not fit its shape [3]"});
  for (const int64_t size : {int64_t{-2}, int64_t{1} << 62}) {
    entry.mutable_shape()->mutable_dim(0)->set_size(size);
    with_entry(entry);
    fails(folder / "c", {"do not fit its shape"});
  }
  entry.set_offset(-1);
  with_entry(entry);
  fails(folder / "c", {"is cut short: tensor a/weights"});
  entry.set_shard_id(1);
  with_entry(entry);
  fails(folder / "c", {"tensor a/weights is said to lie in file 1 of 1"});
  entry.add_slices();
  with_entry(entry);
  fails(folder / "c", {"tensor a/weights is stored in slices"});
  records::BundleHeader header;
  header.set_endianness(records::BundleHeader::BIG);
  with_entry(entry, header);
  fails(folder / "c", {"highest byte"});
  write_table(folder / "c.index", {{"a", "\xff"}});
  fails(folder / "c", {"does not begin with a header"});
  write_table(folder / "c.index", {{"", "\xff"}});
  fails(folder / "c", {"the entry '' is damaged"});
}

TEST(TensorFlowCheckpoint, VariablesOfFewerAndMoreBitsAreRead) {
  records::SavedTensorSlices contents, entry;
  const auto add = [&](const std::string& name, int type) {
    auto& tensor = *contents.mutable_meta()->add_tensor();
    tensor.set_name(name);
    tensor.set_type(type);
    tensor.mutable_shape()->add_dim()->set_size(2);
    entry.Clear();
    entry.mutable_data()->set_name(name);
    return entry.mutable_data()->mutable_data();
  };
  std::map<std::string, std::string> entries;
  auto* values = add("half", 19);
  values->add_half_val(0x3c00), values->add_half_val(0xc000);
  entries["half"] = entry.SerializeAsString();
  values = add("double", 2);
  values->add_double_val(0.5), values->add_double_val(1e300);
  entries["double"] = entry.SerializeAsString();
  values = add("int", 3);
  values->add_int_val(-7), values->add_int_val(8);
  entries["int"] = entry.SerializeAsString();
  values = add("text", 7);
  entries["text"] = entry.SerializeAsString();
  entries[""] = contents.SerializeAsString();
  const TempDir folder;
  write_table(folder / "v1.ckpt", entries);
  const TensorFlowCheckpoint read = read_tensorflow(folder / "v1.ckpt");
  EXPECT_THAT(read.variables, UnorderedElementsAre(Key("half"), Key("double"), Key("int")));
  EXPECT_TRUE(at::equal(read.variables.at("half"), at::tensor({1.0, -2.0}).to(at::kHalf)));
  EXPECT_TRUE(at::equal(read.variables.at("double"), at::tensor({0.5, 1e300}, at::kDouble)));
  EXPECT_TRUE(at::equal(read.variables.at("int"), at::tensor({-7, 8}, at::kInt)));

  values = add("float", 1);
  values->add_float_val(1);
  entries["float"] = entry.SerializeAsString();
  entries[""] = contents.SerializeAsString();
  write_table(folder / "short.ckpt", entries);
  EXPECT_EQ(code_of([&] { read_tensorflow(folder / "short.ckpt"); }, HasSubstr("tensor float: 4 bytes do not fit")),
            ExitCode::kData);
  entry.mutable_data()->mutable_slice()->add_extent()->set_length(1);
  entries["float"] = entry.SerializeAsString();
  write_table(folder / "slices.ckpt", entries);
  EXPECT_EQ(code_of([&] { read_tensorflow(folder / "slices.ckpt"); }, HasSubstr("tensor float is stored in slices")),
            ExitCode::kData);
}

}  // namespace
}  // namespace osprey::checkpoint
