#include "osprey/data/fake_source.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "data/epoch_order.h"

namespace osprey::data {
namespace {
constexpr uint64_t kFakeImages = uint64_t{1} << 32;

// Noise with one to four boxes, each of the colour of its class; boxes may overlap, later ones cover earlier ones.
Example fake_example(int64_t index, const SourceOptions& options, ImageSize size) {
  KeyedDraws draws({options.seed, 0, static_cast<uint64_t>(index), kFakeImages});
  Example example;
  example.id = "fake_" + std::to_string(index);
  example.original_height = size.height;
  example.original_width = size.width;
  example.image = at::empty({size.height, size.width, 3}, at::kByte);
  uint8_t* pixels = example.image.data_ptr<uint8_t>();
  for (int64_t i = 0; i < example.image.numel(); ++i) pixels[i] = static_cast<uint8_t>(96 + (draws.word() >> 26));

  const int64_t classes = std::max<int64_t>(1, options.num_classes);
  for (int64_t i = draws.integer(1, 5); i > 0; --i) {
    const float height = draws.uniform(0.15f, 0.5f), width = draws.uniform(0.15f, 0.5f);
    const float ymin = draws.uniform(0, 1 - height), xmin = draws.uniform(0, 1 - width);
    const int64_t label = draws.integer(0, classes);
    const auto row = [&](float y) { return static_cast<int64_t>(y * static_cast<float>(size.height)); };
    const auto column = [&](float x) { return static_cast<int64_t>(x * static_cast<float>(size.width)); };
    const at::Tensor color = at::tensor({label * 97 % 256, 255 - label * 53 % 256, label * 151 % 256}).to(at::kByte);
    example.image.slice(0, row(ymin), row(ymin + height)).slice(1, column(xmin), column(xmin + width)).copy_(color);
    example.boxes.push_back({ymin, xmin, ymin + height, xmin + width});
    example.classes.push_back(label);
    example.weights.push_back(1);
  }
  if (options.training) example.multiclass_scores = at::one_hot(at::tensor(example.classes), classes).to(at::kFloat);
  return example;
}

/// Lying and standing in turn, for networks that take pictures of any size.
ImageSize fake_size(int64_t index) { return index % 2 == 0 ? ImageSize{480, 640} : ImageSize{640, 480}; }

class FakeSource final : public BatchSource {
 public:
  FakeSource(const SourceOptions& options, int64_t num_examples)
      : options_(options), order_{num_examples, 1, options.training, options.seed} {
    TORCH_CHECK(options.resizer, "a source needs a resizer");
    shape_ = shape_of(options);
    shape_.pin_memory = options.pin_memory;
    if (shape_.max_boxes == 0) shape_.max_boxes = 4 * pictures_of(options);
    shape_.num_classes = std::max<int64_t>(1, options.num_classes);
    for (int64_t i = 0; i < num_examples; ++i)
      examples_.push_back(fake_example(i, options, shape_.image.value_or(fake_size(i))));
  }

  std::optional<Batch> next() override {
    const int64_t size = shape_.batch_size, first = options_.first_of(position_);
    const int64_t rows = options_.training ? size : std::min(size, order_.size() - first);
    if (rows <= 0) return std::nullopt;
    Collation collation(shape_, options_.resizer);
    for (int64_t row = 0; row < rows; ++row) {
      const EpochOrder::Place place = order_.place(first + row);
      const int64_t record = order_.record_of(order_.draw(place));
      Example example = examples_[record];
      if (options_.training && options_.augmenter)
        options_.augmenter->apply(example, {options_.seed, place.epoch, static_cast<uint64_t>(record), 0},
                                  [&](RandomDraws& draws) { return examples_[draws.integer(0, order_.size())]; });
      collation.put(row, example, first + row);
    }
    ++position_;
    return collation.finish();
  }
  void seek(int64_t index) override { position_ = index; }
  int64_t position() const override { return position_; }
  int64_t num_examples() const override { return order_.size(); }

 private:
  SourceOptions options_;
  EpochOrder order_;
  BatchShape shape_;
  std::vector<Example> examples_;
  int64_t position_ = 0;
};
}  // namespace

std::unique_ptr<BatchSource> make_fake_source(const SourceOptions& options, int64_t num_examples) {
  TORCH_CHECK(num_examples > 0, "a fake source needs examples");
  return std::make_unique<FakeSource>(options, num_examples);
}

}  // namespace osprey::data
