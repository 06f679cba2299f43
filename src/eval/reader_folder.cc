#include "osprey/eval/reader_folder.h"

#include <fmt/format.h>

namespace osprey::eval {
namespace {

std::string folder_name(const proto::TrainEvalPipelineConfig& config, int index) {
  const std::string& name = config.eval_input_reader(index).name();
  return name.empty() ? fmt::format("reader_{}", index) : name;
}

}  // namespace

std::filesystem::path reader_folder(const config::ConfigNode<proto::TrainEvalPipelineConfig>& root, int index,
                                    const std::filesystem::path& eval_dir) {
  if (index == 0) return eval_dir;
  const auto reader = root.child("eval_input_reader", index, root->eval_input_reader(index));
  const std::string name = folder_name(*root, index);
  if (name == "." || name == ".." || name.find_first_of(std::string("/\\\0", 3)) != name.npos)
    reader.fail("name", fmt::format("its results go to a folder of that name, which '{}' cannot be", name));
  for (int earlier = 1; earlier < index; ++earlier)
    if (folder_name(*root, earlier) == name)
      reader.fail("name", fmt::format("'{}' is eval_input_reader[{}], too: the results of one would replace those of "
                                      "the other",
                                      name, earlier));
  return eval_dir / name;
}

std::string reader_text(const proto::TrainEvalPipelineConfig& config, int index) {
  const std::string& name = config.eval_input_reader(index).name();
  return fmt::format("eval_input_reader[{}]{}", index, name.empty() ? "" : " (" + name + ")");
}

}  // namespace osprey::eval
