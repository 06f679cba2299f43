#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>

#include "osprey/base/atomic_file.h"
#include "osprey/config/resolve.h"
#include "osprey/data/example_index.h"
#include "osprey/data/image_codec.h"
#include "osprey/data/record_file.h"
#include "osprey/data/record_index.h"
#include "osprey/eval/draw.h"
#include "osprey/train/class_check.h"
#include "osprey/train/dataset_check.h"

namespace osprey::train {
namespace {
namespace fs = std::filesystem;

/// The box as it can be drawn: its corners in order and inside the picture; nothing where one is no number.
std::optional<Box> drawable(const Box& box) {
  if (std::isnan(box.ymin) || std::isnan(box.xmin) || std::isnan(box.ymax) || std::isnan(box.xmax)) return {};
  const auto cut = [](float v) { return std::clamp(v, 0.0f, 1.0f); };
  const auto [ymin, ymax] = std::minmax({cut(box.ymin), cut(box.ymax)});
  const auto [xmin, xmax] = std::minmax({cut(box.xmin), cut(box.xmax)});
  return Box{ymin, xmin, ymax, xmax};
}

at::Tensor drawing_of(const data::CheckedRecord& checked, const ReaderCheck& reader) {
  std::vector<eval::DrawnBox> boxes;
  const Example& example = *checked.example;
  for (const data::RecordProblem& problem : checked.problems)  // on top, for they come first
    if (const auto box = problem.values ? drawable(*problem.values) : std::nullopt)
      boxes.push_back({.box = *box,
                       .label = fmt::format("{}: {}", problem.box, problem.kind),
                       .color = std::array<uint8_t, 3>{255, 0, 0}});
  for (size_t i = 0; i < example.boxes.size(); ++i) {
    const auto index = static_cast<size_t>(example.classes[i]);
    boxes.push_back({.box = example.boxes[i],
                     .class_index = example.classes[i],
                     .label = (index < reader.classes.size() ? reader.classes[index].name : std::to_string(index + 1)) +
                              (example.weights[i] == 0 ? " (weight 0)" : "")});
  }
  return eval::draw_boxes(example.image, boxes, {.max_boxes = std::numeric_limits<int>::max()});
}

/// The bytes of a record of a file. Where the file is damaged further on there is no index of it, and it is read up to
/// there.
std::string record_at(const data::RecordOrigin& origin, std::optional<data::RecordIndex>& index) {
  try {
    if (!index || index->files().front() != origin.file) index.emplace(std::vector{origin.file});
    return index->read(origin.record);
  } catch (const DataError&) {
    data::RecordReader records(origin.file);
    for (std::string record; records.next(record);)
      if (records.origin().record == origin.record) return record;
    throw;
  }
}

std::string file_name(size_t number, const std::string& reader, const ReaderCheck::Picture& picture) {
  std::string name = fmt::format(
      "{:02}_{}_{}", number, reader,
      picture.name.empty() ? std::to_string(picture.origin.record) : fs::path(picture.name).stem().string());
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '.') c = '_';
  constexpr size_t kLongest = 120;
  return name.substr(0, kLongest) + ".jpg";
}

}  // namespace

std::vector<std::string> draw_worst(const config::Pipeline& pipeline, const DatasetCheck& check, int num_pictures,
                                    const std::string& folder) {
  struct Drawn {
    size_t reader;
    const ReaderCheck::Picture* picture;
  };
  std::vector<Drawn> drawn;
  for (size_t i = 0; i < check.readers.size(); ++i)
    for (const ReaderCheck::Picture& picture : check.readers[i].worst) drawn.push_back({i, &picture});
  std::ranges::stable_sort(drawn, std::ranges::greater(),
                           [](const Drawn& a) { return std::pair(a.picture->problems, a.picture->boxes); });
  if (drawn.size() > static_cast<size_t>(num_pictures)) drawn.resize(static_cast<size_t>(num_pictures));

  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw DataError(fmt::format("cannot make the folder '{}': {}", folder, error.message()));
  const auto root = pipeline.root();
  std::vector<std::string> files;
  std::optional<data::RecordIndex> index;
  std::vector<std::unique_ptr<data::ExampleIndex>> annotations(check.readers.size());
  for (const auto& [number, picture] : drawn) {
    const ReaderCheck& checked = check.readers[number];
    const auto reader = number == 0 ? root.child("train_input_reader", root->train_input_reader())
                                    : root.child("eval_input_reader", static_cast<int>(number) - 1,
                                                 root->eval_input_reader(static_cast<int>(number) - 1));
    std::shared_ptr<const config::LabelMap> map;
    if (const auto read = config::label_map_of(*reader)) map = std::make_shared<const config::LabelMap>(*read);
    const data::RecordChecker checker(reader, config::num_classes(*root), map);
    data::CheckedRecord again;
    try {
      const data::RecordOrigin& origin = picture->origin;
      auto& examples = annotations[number];
      if (reader->has_annotation_input_reader() && !examples) examples = data::open_examples(reader, map);
      again = checker.check(examples ? examples->read(origin.record) : record_at(origin, index), origin);
    } catch (const DataError&) {  // it has changed meanwhile
    }
    if (!again.example) continue;
    files.push_back((fs::path(folder) / file_name(files.size() + 1, checked.reader, *picture)).string());
    write_whole(files.back(), data::encode_jpeg(drawing_of(again, checked)));
  }
  return files;
}

}  // namespace osprey::train
