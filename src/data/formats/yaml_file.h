#pragma once
#include <optional>
#include <string>
#include <vector>

namespace osprey::data {

/// What stands behind one key of a YAML file: a scalar, a list of scalars, or a map of scalars to scalars.
struct YamlValue {
  enum class Kind { kScalar, kList, kMap };
  struct Item {
    std::string key;  ///< of maps, else ""
    std::string text;
    int line = 0;
  };
  Kind kind = Kind::kScalar;
  std::string text;  ///< of a scalar; "" where nothing or null stands there
  int line = 0;      ///< from 1
  std::vector<Item> items;
};

/// Reads the part of YAML that descriptions of data sets are written in: a map whose values are scalars, lists or maps
/// of scalars, in blocks or in brackets, with quotes and comments. Everything is text; what `yes` or `1` mean is the
/// caller's business.
///
/// A value is looked at when it is asked for: what stands behind other keys (scripts, nested maps) does no harm.
///
///     const YamlFile file("data.yaml");
///     if (const std::optional<YamlValue> names = file.find("names")) ...
class YamlFile {
 public:
  /// throws DataError: cannot be read; a line at the left that begins no key (with file and line)
  explicit YamlFile(const std::string& file);

  /// returns nothing where the file does not have the key
  /// throws  DataError: what is not read here, with file and line
  std::optional<YamlValue> find(const std::string& key) const;

 private:
  struct Entry {
    std::string key;
    int line = 0;              // of the key
    std::string text;          // behind the colon, up to the next key
    bool in_brackets = false;  // a list or a map in brackets
  };
  std::string file_;
  std::vector<Entry> entries_;
};

}  // namespace osprey::data
