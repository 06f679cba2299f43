#include "osprey/data/read_report.h"

#include <fmt/format.h>

#include <functional>

namespace osprey::data {
namespace {

constexpr size_t kShown = 3;

const char* what(ReadReport::Problem problem) {
  switch (problem) {
    case ReadReport::Problem::kClippedBox:
      return "box(es) clipped to the image";
    case ReadReport::Problem::kDroppedBox:
      return "box(es) left out";
    case ReadReport::Problem::kRotatedImage:
      return "picture(s) turned upright by their EXIF orientation";
    case ReadReport::Problem::kAmbiguousOrientation:
      return "picture(s) taken as stored although their EXIF orientation says otherwise: the annotated size does not "
             "decide";
    case ReadReport::Problem::kTextDisagrees:
      return "object(s) whose class text and class label do not name one class";
    case ReadReport::Problem::kUnknownClass:
      return "object(s) of unknown classes";
  }
  return "";
}

}  // namespace

void ReadReport::add(Problem problem, const Place& at, const std::string& details) {
  const std::string place = at.box < 0 ? at.record : fmt::format("{}: box {}", at.record, at.box);
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[static_cast<size_t>(problem)];
  if (!entry.places.insert(std::hash<std::string>()(place)).second) return;
  if (keep_findings_) findings_.push_back({problem, at, details});
  if (entry.first.size() < kShown) entry.first.push_back(details.empty() ? place : place + ": " + details);
}

int64_t ReadReport::count(Problem problem) const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(entries_[static_cast<size_t>(problem)].places.size());
}

std::vector<ReadReport::Finding> ReadReport::findings() const {
  const std::lock_guard lock(mutex_);
  return findings_;
}

std::vector<std::string> ReadReport::lines() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> result;
  for (int i = 0; i < kNumProblems; ++i) {
    const Entry& entry = entries_[static_cast<size_t>(i)];
    if (entry.places.empty()) continue;
    std::string line = fmt::format("{} {}: ", entry.places.size(), what(static_cast<Problem>(i)));
    for (size_t k = 0; k < entry.first.size(); ++k) line += (k > 0 ? "; " : "") + entry.first[k];
    if (entry.places.size() > entry.first.size()) line += "; ...";
    result.push_back(std::move(line));
  }
  return result;
}

}  // namespace osprey::data
