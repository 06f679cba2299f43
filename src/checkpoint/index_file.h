#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace osprey::checkpoint {

/// The text file `checkpoint` of a model directory, in the form of TensorFlow's CheckpointState.
struct IndexFile {
  struct Line {
    std::string name;      ///< "ckpt-100", relative to the folder
    double timestamp = 0;  ///< seconds since 1970
  };
  std::string newest;                    ///< model_checkpoint_path
  std::vector<Line> all;                 ///< all_model_checkpoint_paths and ..._timestamps
  std::optional<double> last_preserved;  ///< when the last checkpoint that is kept for ever was written

  std::string text() const;
};

/// Reads the file of a folder; an empty index where there is none. Lines it does not know are passed over.
IndexFile read_index(const std::filesystem::path& folder);

}  // namespace osprey::checkpoint
