#include "osprey/data/collate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace osprey::data {
namespace {
// Row `row` of a [B, M] tensor as plain memory.
template <class T>
T* row_of(at::Tensor& tensor, int64_t row) {
  return tensor.data_ptr<T>() + row * tensor.stride(0);
}

template <class T, class U>
void copy_list(const std::vector<U>& list, int64_t count, T* out) {
  for (int64_t i = 0; i < std::min<int64_t>(count, static_cast<int64_t>(list.size())); ++i)
    out[i] = static_cast<T>(list[i]);
}

void put_size(at::Tensor& sizes, int64_t row, ImageSize size) {
  row_of<int64_t>(sizes, row)[0] = size.height;
  row_of<int64_t>(sizes, row)[1] = size.width;
}

void put_objects(Batch& batch, int64_t row, const Example& example, int64_t count) {
  static_assert(sizeof(Box) == 4 * sizeof(float));
  if (count > 0) std::memcpy(row_of<float>(batch.boxes, row), example.boxes.data(), count * sizeof(Box));
  std::fill_n(row_of<float>(batch.weights, row), count, 1.0f);
  copy_list(example.weights, count, row_of<float>(batch.weights, row));
  copy_list(example.is_crowd, count, row_of<bool>(batch.is_crowd, row));
  copy_list(example.difficult, count, row_of<bool>(batch.difficult, row));
  copy_list(example.group_of, count, row_of<bool>(batch.group_of, row));
  copy_list(example.area, count, row_of<float>(batch.area, row));
  std::fill_n(row_of<bool>(batch.valid, row), count, true);
}

float confidence_of(const Example& example, int64_t object) {
  return example.confidences.empty() ? 1.0f : example.confidences[static_cast<size_t>(object)];
}

// One label a box; a confidence is 1 where the record has none.
void put_labels(Batch& batch, int64_t row, const Example& example, int64_t count) {
  copy_list(example.classes, count, row_of<int64_t>(batch.classes, row));
  if (!batch.confidences.defined()) return;
  for (int64_t i = 0; i < count; ++i) row_of<float>(batch.confidences, row)[i] = confidence_of(example, i);
}

// A row of scores a box, of which a confidence makes a multiple.
void put_scores(Batch& batch, int64_t row, const Example& example, int64_t count, int64_t classes) {
  if (count == 0) return;
  TORCH_CHECK(example.multiclass_scores.defined() && example.multiclass_scores.size(1) == classes,
              "expected multiclass_scores of ", classes, " classes");
  const at::Tensor scores = example.multiclass_scores.narrow(0, 0, count);
  batch.classes[row].narrow(0, 0, count).copy_(scores);
  if (!batch.confidences.defined()) return;
  const at::Tensor factors = example.confidences.empty() ? at::ones({count}) : at::tensor(example.confidences);
  batch.confidences[row].narrow(0, 0, count).copy_(scores * factors.narrow(0, 0, count).unsqueeze(1));
}

void put_image_classes(Batch& batch, int64_t row, const Example& example) {
  auto* const classes = row_of<bool>(batch.image_classes, row);
  for (const int64_t label : example.image_classes)
    if (label >= 0 && label < batch.image_classes.size(1)) classes[label] = true;
}

void put_k_hot(Batch& batch, int64_t row, const Example& example, const MergedBoxes& merged, int64_t count,
               int64_t classes) {
  float* k_hot = row_of<float>(batch.classes, row);
  float* confidences = batch.confidences.defined() ? row_of<float>(batch.confidences, row) : nullptr;
  for (size_t i = 0; i < merged.merged.size(); ++i) {
    if (merged.merged[i] >= count) continue;
    const int64_t at = merged.merged[i] * classes + example.classes[i];
    TORCH_CHECK(example.classes[i] >= 0 && example.classes[i] < classes, "class ", example.classes[i], " of ", classes);
    k_hot[at] = 1;
    if (confidences != nullptr) confidences[at] = confidence_of(example, static_cast<int64_t>(i));
  }
}
ImageSize size_of(const at::Tensor& picture) { return {picture.size(0), picture.size(1)}; }

at::ScalarType image_type(const BatchShape& shape) { return shape.float_images ? at::kFloat : at::kByte; }

at::Tensor host_zeros(const BatchShape& shape, at::IntArrayRef sizes, at::ScalarType type) {
  return at::zeros(sizes, at::TensorOptions().dtype(type).pinned_memory(shape.pin_memory));
}

at::Tensor empty_images(const BatchShape& shape, ImageSize canvas) {
  return host_zeros(shape, {shape.batch_size, canvas.height, canvas.width, shape.channels}, image_type(shape))
      .permute({0, 3, 1, 2});
}

/// A batch of padding.
Batch empty_batch(const BatchShape& shape) {
  const int64_t size = shape.batch_size, boxes = shape.max_boxes;
  const auto zeros = [&](at::IntArrayRef sizes, at::ScalarType type) { return host_zeros(shape, sizes, type); };
  Batch batch;
  if (shape.image) batch.images = empty_images(shape, *shape.image);
  batch.true_shapes = zeros({size, 2}, at::kLong);
  if (shape.resize_later) batch.source_shapes = zeros({size, 2}, at::kLong);
  batch.boxes = zeros({size, boxes, 4}, at::kFloat);
  const bool class_rows = shape.multi_label || shape.class_scores;
  batch.classes = class_rows ? zeros({size, boxes, shape.num_classes}, at::kFloat) : zeros({size, boxes}, at::kLong);
  batch.weights = zeros({size, boxes}, at::kFloat);
  if (shape.confidences)
    batch.confidences =
        class_rows ? zeros({size, boxes, shape.num_classes}, at::kFloat) : zeros({size, boxes}, at::kFloat);
  batch.is_crowd = zeros({size, boxes}, at::kBool);
  batch.difficult = zeros({size, boxes}, at::kBool);
  batch.group_of = zeros({size, boxes}, at::kBool);
  batch.area = zeros({size, boxes}, at::kFloat);
  batch.valid = zeros({size, boxes}, at::kBool);
  batch.image_classes = zeros({size, shape.num_classes}, at::kBool);
  batch.image_weights = zeros({size}, at::kFloat);
  batch.example_keys = zeros({size}, at::kLong);
  batch.original_sizes = zeros({size, 2}, at::kLong);
  batch.ids.resize(size);
  return batch;
}

}  // namespace

Collation::Collation(const BatchShape& shape, std::shared_ptr<const ImageResizer> resizer)
    : shape_(shape), resizer_(std::move(resizer)), batch_(empty_batch(shape)) {
  if (!shape.image) pictures_.resize(static_cast<size_t>(shape.batch_size));
}

int64_t Collation::put(int64_t row, const Example& example, int64_t key) {
  put_picture(row, example.image);

  int64_t found = static_cast<int64_t>(example.boxes.size());
  if (shape_.multi_label) {
    const auto* const picture = row_of<int64_t>(batch_.true_shapes, row);
    const ImageSize canvas = resizer_->canvas_size(size_of(example.image));  // of the network, whoever resizes
    const MergedBoxes merged = merge_boxes(example, {picture[0], picture[1]}, canvas);
    found = static_cast<int64_t>(merged.first.size());
    const int64_t count = std::min(found, shape_.max_boxes);
    Example rows = example;
    rows.image = at::Tensor();
    select(rows, merged.first);
    put_objects(batch_, row, rows, count);
    put_k_hot(batch_, row, example, merged, count, shape_.num_classes);
  } else {
    const int64_t count = std::min(found, shape_.max_boxes);
    put_objects(batch_, row, example, count);
    if (shape_.class_scores)
      put_scores(batch_, row, example, count, shape_.num_classes);
    else
      put_labels(batch_, row, example, count);
  }

  put_image_classes(batch_, row, example);
  batch_.image_weights.data_ptr<float>()[row] = 1;
  batch_.example_keys.data_ptr<int64_t>()[row] = key;
  put_size(batch_.original_sizes, row, {example.original_height, example.original_width});
  batch_.ids[row] = example.id;
  return std::max<int64_t>(0, found - shape_.max_boxes);
}

void Collation::put_picture(int64_t row, const at::Tensor& picture) {
  const ImageSize size = size_of(picture);
  if (!shape_.image) {
    pictures_[static_cast<size_t>(row)] = on_canvas_of_its_own(picture);
    put_size(batch_.true_shapes, row, resizer_->content_size(size));
    return;
  }
  const at::Tensor canvas = batch_.images.permute({0, 2, 3, 1})[row];
  const bool fits = size.height <= shape_.image->height && size.width <= shape_.image->width;
  if (shape_.resize_later && fits) {
    resize_into(picture, canvas.narrow(0, 0, size.height).narrow(1, 0, size.width));  // which is a copy
    put_size(batch_.source_shapes, row, size);
    put_size(batch_.true_shapes, row, resizer_->content_size(size));
    return;
  }
  const ImageSize content = resizer_->resize_into(picture, canvas);
  put_size(batch_.true_shapes, row, content);
  if (shape_.resize_later) put_size(batch_.source_shapes, row, content);
}

at::Tensor Collation::on_canvas_of_its_own(const at::Tensor& picture) const {
  const ImageSize size = size_of(picture), canvas = resizer_->canvas_size(size);
  const at::ScalarType type = image_type(shape_);
  const bool stays = resizer_->content_size(size) == size && canvas == size;
  if (stays && picture.scalar_type() == type && picture.size(2) == shape_.channels) return picture.contiguous();
  at::Tensor result = at::zeros({canvas.height, canvas.width, shape_.channels}, type);
  resizer_->resize_into(picture, result);
  return result;
}

Batch Collation::finish() {
  if (shape_.image) return std::move(batch_);
  ImageSize canvas{0, 0};
  for (const at::Tensor& picture : pictures_)
    if (picture.defined()) canvas = {std::max(canvas.height, picture.size(0)), std::max(canvas.width, picture.size(1))};
  if (canvas.height == 0) canvas = resizer_->usual_size();  // none of the records could be used
  if (pictures_.size() == 1 && pictures_[0].defined()) {
    batch_.images = pictures_[0].permute({2, 0, 1}).unsqueeze(0);
    return std::move(batch_);
  }
  batch_.images = empty_images(shape_, canvas);
  for (size_t row = 0; row < pictures_.size(); ++row) {
    const at::Tensor& picture = pictures_[row];
    if (!picture.defined()) continue;
    const at::Tensor place = batch_.images[static_cast<int64_t>(row)].permute({1, 2, 0});
    place.narrow(0, 0, picture.size(0)).narrow(1, 0, picture.size(1)).copy_(picture);
  }
  return std::move(batch_);
}

void drop_unusable_objects(Example& example) {
  std::vector<int64_t> kept;
  for (size_t i = 0; i < example.boxes.size(); ++i) {
    const Box& box = example.boxes[i];
    const bool is_nan = std::isnan(box.ymin) || std::isnan(box.xmin) || std::isnan(box.ymax) || std::isnan(box.xmax);
    if (!is_nan && example.classes[i] >= 0) kept.push_back(static_cast<int64_t>(i));
  }
  if (kept.size() != example.boxes.size()) select(example, kept);
}

MergedBoxes merge_boxes(const Example& example, std::array<float, 2> on_canvas) {
  TORCH_CHECK(!example.masks.defined() && !example.keypoints.defined(), "Multi-label support is only for boxes.");
  const auto places = [&](int64_t object) {
    constexpr float kSteps = 9999;  // of the original's grid: its quantization_bins but one
    const auto place = [](float at, float share) { return static_cast<int64_t>(at * share * kSteps); };
    const Box& box = example.boxes[static_cast<size_t>(object)];
    return std::array<int64_t, 4>{place(box.ymin, on_canvas[0]), place(box.xmin, on_canvas[1]),
                                  place(box.ymax, on_canvas[0]), place(box.xmax, on_canvas[1])};
  };
  MergedBoxes result;
  for (size_t i = 0; i < example.boxes.size(); ++i) {
    const auto same = [&, own = places(static_cast<int64_t>(i))](int64_t first) { return places(first) == own; };
    const auto found = std::find_if(result.first.begin(), result.first.end(), same);
    result.merged.push_back(found - result.first.begin());
    if (found == result.first.end()) result.first.push_back(static_cast<int64_t>(i));
  }
  return result;
}

MergedBoxes merge_boxes(const Example& example, ImageSize content, ImageSize canvas) {
  const auto share = [](int64_t of, int64_t side) { return 1 / (static_cast<float>(side) / static_cast<float>(of)); };
  return merge_boxes(example, {share(content.height, canvas.height), share(content.width, canvas.width)});
}

}  // namespace osprey::data
