#include "support/golden.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace osprey::testing {
namespace {

double number(const nlohmann::json& value) {
  if (value.is_null()) return std::nan("");
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (!value.is_string()) return value.get<double>();
  const std::string text = value.get<std::string>();
  if (text == "nan") return std::nan("");
  if (text == "inf") return INFINITY;
  if (text == "-inf") return -INFINITY;
  throw std::runtime_error("not a number: " + text);
}

void flatten(const nlohmann::json& values, size_t depth, std::vector<int64_t>& shape, std::vector<double>& flat) {
  if (!values.is_array()) {
    flat.push_back(number(values));
    return;
  }
  if (shape.size() <= depth) shape.push_back(static_cast<int64_t>(values.size()));
  if (shape[depth] != static_cast<int64_t>(values.size())) throw std::runtime_error("ragged list in a golden file");
  for (const auto& value : values) flatten(value, depth + 1, shape, flat);
}

}  // namespace

std::optional<std::filesystem::path> test_data() {
  const char* folder = std::getenv("OSPREY_TEST_DATA");
  if (folder == nullptr || *folder == '\0') return std::nullopt;
  return std::filesystem::path(folder);
}

std::filesystem::path bundled_data() { return std::filesystem::path(OSPREY_SOURCE_DIR) / "tests" / "data"; }

std::vector<std::filesystem::path> golden_files(const std::string& name) {
  std::vector<std::filesystem::path> files;
  const auto bundled = bundled_data() / "golden" / name;
  if (std::filesystem::exists(bundled)) files.push_back(bundled);
  if (test_data()) files.push_back(*test_data() / "golden" / name);
  return files;
}

std::string read_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + file.string());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

nlohmann::json read_json(const std::filesystem::path& file) { return nlohmann::json::parse(read_file(file)); }

at::Tensor tensor(const nlohmann::json& values, at::ScalarType type) {
  std::vector<int64_t> shape;
  std::vector<double> flat;
  flatten(values, 0, shape, flat);
  return at::tensor(flat, at::kDouble).to(type).reshape(shape);
}

void expect_close(const at::Tensor& actual, const at::Tensor& expected, double relative, double absolute,
                  const std::string& what) {
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  const at::Tensor a = actual.detach().to(at::kDouble).contiguous().flatten(),
                   e = expected.detach().to(at::kDouble).contiguous().flatten();
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double x = a.data_ptr<double>()[i], y = e.data_ptr<double>()[i];
    const bool same = std::isnan(y) ? std::isnan(x) : (x == y || std::abs(x - y) <= absolute + relative * std::abs(y));
    if (!same) {
      ADD_FAILURE() << what << ": element " << i << " of " << a.numel() << " is " << x << ", expected " << y;
      return;
    }
  }
}

}  // namespace osprey::testing
