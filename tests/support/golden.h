#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace osprey::testing {

/// The folder with golden/ and data/ that OSPREY_TEST_DATA names; nothing where it is not set.
std::optional<std::filesystem::path> test_data();

/// The small selection of golden numbers and data that is part of the tree: tests/data, laid out like `test_data()`.
std::filesystem::path bundled_data();

/// Every existing copy of a golden file, bundled first: golden_files("losses.json"). A test reads all of them, and
/// every case in them. Where OSPREY_TEST_DATA is set and the file is missing in it, the path is returned all the same,
/// so that reading it fails the test.
std::vector<std::filesystem::path> golden_files(const std::string& name);

/// Says aloud, once per test, how many of the cases could not run because OSPREY_TEST_DATA is not set.
/// Use: if (!test_data()) GTEST_SKIP() << kNoTestData;
inline constexpr const char* kNoTestData = "OSPREY_TEST_DATA is not set: the full golden files were not read";

nlohmann::json read_json(const std::filesystem::path& file);
std::string read_file(const std::filesystem::path& file);

/// Nested lists of numbers (or the strings "nan", "inf", "-inf") as a tensor of the lists' shape.
at::Tensor tensor(const nlohmann::json& values, at::ScalarType type = at::kFloat);

/// Fails the test, with the place and both values, where |actual - expected| > absolute + relative * |expected| or
/// where NaN and infinity do not stand in the same places. Shapes must agree.
void expect_close(const at::Tensor& actual, const at::Tensor& expected, double relative, double absolute,
                  const std::string& what);

}  // namespace osprey::testing
