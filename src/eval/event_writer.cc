#include "osprey/eval/event_writer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "base/utf8_text.h"
#include "osprey/base/clock.h"
#include "osprey/base/error.h"
#include "osprey/data/image_codec.h"
#include "osprey/data/record_file.h"
#include "osprey/eval/histogram.h"
#include "osprey/records/event.pb.h"

namespace osprey::eval {
namespace {

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

std::string new_path(const std::string& directory) {
  static std::atomic<int> count{0};
  const auto name = fmt::format("events.out.tfevents.{:010d}.{}.{}.{}", static_cast<int64_t>(since_1970()), host_name(),
                                getpid(), count++);
  return (std::filesystem::path(directory) / name).string();
}

/// Runs of empty buckets become one.
void fill(records::Histogram& histogram, const at::Tensor& counted) {
  const std::vector<double>& limits = HistogramBuckets::limits();
  const at::Tensor here = counted.to(at::kCPU, at::kDouble).contiguous();
  TORCH_CHECK(here.numel() == HistogramBuckets::kMoments + static_cast<int64_t>(limits.size()),
              "expected what HistogramBuckets has counted, got ", counted.sizes());
  const double* const numbers = here.const_data_ptr<double>();
  histogram.set_min(numbers[0]);
  histogram.set_max(numbers[1]);
  histogram.set_num(numbers[2]);
  histogram.set_sum(numbers[3]);
  histogram.set_sum_squares(numbers[4]);
  const double* const counts = numbers + HistogramBuckets::kMoments;
  for (size_t i = 0; i < limits.size(); ++i) {
    if (counts[i] == 0)
      while (i + 1 < limits.size() && counts[i + 1] == 0) ++i;
    histogram.add_bucket_limit(limits[i]);
    histogram.add_bucket(counts[i]);
  }
}

/// Rows, one for each T: right, wrong, what is rightly not there (of which a detector knows no number: 0), missed,
/// precision, recall. TensorBoard leaves the thresholds out at the end with which nothing is found.
/// source  tensorboard/plugins/pr_curve/summary.py and pr_curves_plugin.py
void fill_curve(records::Summary::Value& value, const std::vector<DetectionCounts>& counts) {
  records::PrCurvePluginData curve;
  curve.set_num_thresholds(static_cast<uint32_t>(counts.size()));
  records::SummaryMetadata& metadata = *value.mutable_metadata();
  metadata.mutable_plugin_data()->set_plugin_name("pr_curves");
  metadata.mutable_plugin_data()->set_content(curve.SerializeAsString());
  metadata.set_display_name(value.tag());
  metadata.set_data_class(records::SummaryMetadata::TENSOR);
  records::Tensor& tensor = *value.mutable_tensor();
  tensor.set_dtype(1);
  tensor.mutable_tensor_shape()->add_dim()->set_size(6);
  tensor.mutable_tensor_shape()->add_dim()->set_size(static_cast<int64_t>(counts.size()));
  const auto row = [&](const auto& number) {
    for (const DetectionCounts& at : counts) {
      const auto value_here = static_cast<double>(number(at));
      tensor.add_float_val(std::isnan(value_here) ? 0 : static_cast<float>(value_here));
    }
  };
  row([](const DetectionCounts& at) { return at.true_positives; });
  row([](const DetectionCounts& at) { return at.false_positives; });
  row([](const DetectionCounts&) { return 0; });
  row([](const DetectionCounts& at) { return at.false_negatives; });
  row([](const DetectionCounts& at) { return at.precision(); });
  row([](const DetectionCounts& at) { return at.recall(); });
}

}  // namespace

struct EventWriter::Impl {
  std::string path;
  std::FILE* file = nullptr;
  std::mutex mutex;

  [[noreturn]] void fail(const char* what) const {
    throw DataError(fmt::format("{}: cannot be {}: {}", path, what, std::strerror(errno)));
  }

  void write(const records::Event& event) {
    const std::string record = data::record_frame(event.SerializeAsString());
    const std::lock_guard<std::mutex> lock(mutex);
    if (std::fwrite(record.data(), 1, record.size(), file) != record.size()) fail("written");
  }

  // An event with one value under `tag`; `set` sets it.
  template <class Set>
  void summary(const std::string& tag, int64_t step, const Set& set) {
    records::Event event;
    event.set_wall_time(since_1970());
    event.set_step(step);
    records::Summary::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(utf8_text(tag));  // one that is not UTF-8 makes the whole file unreadable
    set(value);
    write(event);
  }

  ~Impl() {
    if (file != nullptr) std::fclose(file);
  }
};

EventWriter::EventWriter(const std::string& directory) : impl_(std::make_unique<Impl>()) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw DataError(fmt::format("{}: cannot be made: {}", directory, error.message()));
  impl_->path = new_path(directory);
  impl_->file = std::fopen(impl_->path.c_str(), "wb");
  if (impl_->file == nullptr) impl_->fail("written");
  records::Event first;
  first.set_wall_time(since_1970());
  first.set_file_version("brain.Event:2");
  impl_->write(first);
  flush();
}

EventWriter::~EventWriter() = default;
EventWriter::EventWriter(EventWriter&&) noexcept = default;
EventWriter& EventWriter::operator=(EventWriter&&) noexcept = default;

void EventWriter::scalar(const std::string& tag, double value, int64_t step) {
  impl_->summary(tag, step, [&](records::Summary::Value& entry) { entry.set_simple_value(static_cast<float>(value)); });
}

void EventWriter::histogram(const std::string& tag, const at::Tensor& counted, int64_t step) {
  impl_->summary(tag, step, [&](records::Summary::Value& entry) { fill(*entry.mutable_histo(), counted); });
}

void EventWriter::image(const std::string& tag, const at::Tensor& image, int64_t step) {
  encoded_image(tag, data::encode_png(image), image.size(0), image.size(1), step);
}

void EventWriter::encoded_image(const std::string& tag, const std::string& bytes, int64_t height, int64_t width,
                                int64_t step) {
  impl_->summary(tag, step, [&](records::Summary::Value& entry) {
    entry.mutable_image()->set_height(static_cast<int32_t>(height));
    entry.mutable_image()->set_width(static_cast<int32_t>(width));
    entry.mutable_image()->set_colorspace(3);
    entry.mutable_image()->set_encoded_image_string(bytes);
  });
}

void EventWriter::precision_recall(const std::string& tag, const std::vector<DetectionCounts>& counts, int64_t step) {
  impl_->summary(tag, step, [&](records::Summary::Value& entry) { fill_curve(entry, counts); });
}

void EventWriter::flush() {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  if (std::fflush(impl_->file) != 0) impl_->fail("written");
}

const std::string& EventWriter::path() const { return impl_->path; }

}  // namespace osprey::eval
