#include "data/augmentations/checks.h"
#include "data/augmentations/crop_pad.h"

// The four steps that choose one of several crops; Liu et al., "SSD: Single Shot MultiBox Detector", ECCV 2016,
// section 2.2.
namespace osprey::data {
namespace {
using config::ConfigNode;

// The crops of the original where a config lists none.
std::vector<CropOptions> default_operations() {
  std::vector<CropOptions> operations;
  for (float covered : {0.0f, 0.1f, 0.3f, 0.5f, 0.7f, 0.9f, 1.0f}) {
    CropOptions options;
    options.min_object_covered = options.overlap_thresh = covered;
    options.min_aspect_ratio = 0.5f;
    options.max_aspect_ratio = 2.0f;
    options.random_coef = 0.15f;
    operations.push_back(options);
  }
  return operations;
}

// A crop of an operation message without aspect ratios has the one that is given, one with them its own.
template <class M>
std::vector<CropOptions> operations_of(const ConfigNode<M>& cfg, std::optional<float> aspect_ratio) {
  std::vector<CropOptions> operations;
  for (int i = 0; i < cfg->operations_size(); ++i) {
    const auto node = cfg.child("operations", i, cfg->operations(i));
    CropOptions options = crop_options(node);
    if constexpr (requires { node->min_aspect_ratio(); }) {
      options.min_aspect_ratio = node->min_aspect_ratio();
      options.max_aspect_ratio = node->max_aspect_ratio();
    } else {
      options.min_aspect_ratio = options.max_aspect_ratio = *aspect_ratio;
    }
    check(options, node);
    operations.push_back(options);
  }
  if (!operations.empty()) return operations;
  operations = default_operations();
  if (aspect_ratio)
    for (CropOptions& options : operations) options.min_aspect_ratio = options.max_aspect_ratio = *aspect_ratio;
  return operations;
}

const CropOptions& chosen(const std::vector<CropOptions>& operations, RandomDraws& draws) {
  return operations[draws.integer(0, static_cast<int64_t>(operations.size()))];
}

class SsdRandomCrop final : public Augmentation {
 public:
  explicit SsdRandomCrop(std::vector<CropOptions> operations) : operations_(std::move(operations)) {}
  void apply(Example& example, RandomDraws& draws) const override {
    random_crop(example, chosen(operations_, draws), draws);
  }

 private:
  std::vector<CropOptions> operations_;
};

// Afterwards the largest crop with exactly this aspect ratio, also where the first crop was left out.
class SsdRandomCropFixedAspectRatio final : public Augmentation {
 public:
  SsdRandomCropFixedAspectRatio(std::vector<CropOptions> operations, float aspect_ratio)
      : operations_(std::move(operations)), aspect_ratio_(aspect_ratio) {}
  void apply(Example& example, RandomDraws& draws) const override {
    random_crop(example, chosen(operations_, draws), draws);
    random_crop_to_aspect_ratio(example, aspect_ratio_, /*overlap_thresh=*/0.3f, /*clip=*/true, draws);
  }

 private:
  std::vector<CropOptions> operations_;
  float aspect_ratio_;
};

class SsdRandomCropPadFixedAspectRatio final : public Augmentation {
 public:
  SsdRandomCropPadFixedAspectRatio(std::vector<CropOptions> operations, float aspect_ratio,
                                   std::vector<float> min_ratio, std::vector<float> max_ratio)
      : operations_(std::move(operations)),
        aspect_ratio_(aspect_ratio),
        min_ratio_(std::move(min_ratio)),
        max_ratio_(std::move(max_ratio)) {}
  void apply(Example& example, RandomDraws& draws) const override {
    random_crop(example, chosen(operations_, draws), draws);
    random_pad_to_aspect_ratio(example, aspect_ratio_, min_ratio_, max_ratio_, draws);
  }

 private:
  std::vector<CropOptions> operations_;
  float aspect_ratio_;
  std::vector<float> min_ratio_, max_ratio_;
};

class SsdRandomCropPad final : public Augmentation {
 public:
  explicit SsdRandomCropPad(std::vector<CropPadOptions> operations) : operations_(std::move(operations)) {}
  void apply(Example& example, RandomDraws& draws) const override {
    random_crop_pad(example, operations_[draws.integer(0, static_cast<int64_t>(operations_.size()))], draws);
  }

 private:
  std::vector<CropPadOptions> operations_;
};

std::unique_ptr<Augmentation> make_ssd_crop(const ConfigNode<proto::SSDRandomCrop>& cfg) {
  return std::make_unique<SsdRandomCrop>(operations_of(cfg, std::nullopt));
}
std::unique_ptr<Augmentation> make_ssd_crop_fixed(const ConfigNode<proto::SSDRandomCropFixedAspectRatio>& cfg) {
  if (!(cfg->aspect_ratio() > 0)) cfg.fail("aspect_ratio", "must be > 0");
  const float aspect_ratio = cfg->operations_size() > 0 ? cfg->aspect_ratio() : 1;  // the original forgets it else
  return std::make_unique<SsdRandomCropFixedAspectRatio>(operations_of(cfg, aspect_ratio), aspect_ratio);
}
std::unique_ptr<Augmentation> make_ssd_crop_pad_fixed(const ConfigNode<proto::SSDRandomCropPadFixedAspectRatio>& cfg) {
  if (!(cfg->aspect_ratio() > 0)) cfg.fail("aspect_ratio", "must be > 0");
  std::vector<float> least{1, 1}, most{2, 2};
  read_padded_ratios(cfg, least, most);
  return std::make_unique<SsdRandomCropPadFixedAspectRatio>(operations_of(cfg, std::nullopt), cfg->aspect_ratio(),
                                                            least, most);
}
std::unique_ptr<Augmentation> make_ssd_crop_pad(const ConfigNode<proto::SSDRandomCropPad>& cfg) {
  std::vector<CropPadOptions> operations;
  for (int i = 0; i < cfg->operations_size(); ++i) {
    const auto node = cfg.child("operations", i, cfg->operations(i));
    CropPadOptions options;
    options.crop = crop_options(node);
    options.crop.min_aspect_ratio = node->min_aspect_ratio();
    options.crop.max_aspect_ratio = node->max_aspect_ratio();
    check(options.crop, node);
    read_padded_ratios(node, options.min_ratio, options.max_ratio);
    options.color = {node->pad_color_r(), node->pad_color_g(), node->pad_color_b()};
    operations.push_back(options);
  }
  if (operations.empty()) {
    for (const CropOptions& crop : default_operations())
      if (crop.min_object_covered > 0) operations.push_back({crop, {1, 1}, {2, 2}, {}});
  }
  return std::make_unique<SsdRandomCropPad>(std::move(operations));
}
OSPREY_REGISTER(Augmentation, &make_ssd_crop);
OSPREY_REGISTER(Augmentation, &make_ssd_crop_fixed);
OSPREY_REGISTER(Augmentation, &make_ssd_crop_pad_fixed);
OSPREY_REGISTER(Augmentation, &make_ssd_crop_pad);
}  // namespace
}  // namespace osprey::data
