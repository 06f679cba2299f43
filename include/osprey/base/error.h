#pragma once
#include <stdexcept>
#include <string>

namespace osprey {

/// What a program returns to its caller; every program of Osprey uses these and no others.
enum class ExitCode : int {
  kDone = 0,      ///< also "nothing left to do"
  kInternal = 1,  ///< a bug of Osprey
  kUsage = 2,     ///< flags or config; also config, label map and checkpoint that disagree
  kData = 3,      ///< data, files, disk; other machines and processes
  kDiverged = 4,  ///< a loss or gradient was not finite
  kOutOfMemory = 5,
  kExportDiffers = 6,
};

/// Base of every error that somebody other than Osprey's developers can fix. The message is one line, or one block per
/// finding, ready to be shown; the type says who can fix it and so which exit code a program ends with.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode exit_code() const { return code_; }

 private:
  ExitCode code_;
};

/// Fixed by who wrote the config or the command line.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& message) : Error(ExitCode::kUsage, message) {}
};

/// Fixed by who holds the files: names the file, the record or tensor, what was expected and what was found.
class DataError : public Error {
 public:
  explicit DataError(const std::string& message) : Error(ExitCode::kData, message) {}
};

/// A checkpoint that cannot be used: damaged or missing (kData), or of another model (kUsage).
class CheckpointError : public Error {
 public:
  explicit CheckpointError(const std::string& message, ExitCode code = ExitCode::kData) : Error(code, message) {}
};

/// Training produced a value that is not finite; the message says where the report lies.
class DivergedError : public Error {
 public:
  explicit DivergedError(const std::string& message) : Error(ExitCode::kDiverged, message) {}
};

/// Less memory than a step needs; the message says what fits.
class OutOfMemoryError : public Error {
 public:
  explicit OutOfMemoryError(const std::string& message) : Error(ExitCode::kOutOfMemory, message) {}
};

/// Another process of the same training has gone, or does not answer.
class ReplicaError : public Error {
 public:
  explicit ReplicaError(const std::string& message) : Error(ExitCode::kData, message) {}
};

/// An exported model does not reproduce its checkpoint.
class ExportError : public Error {
 public:
  explicit ExportError(const std::string& message) : Error(ExitCode::kExportDiffers, message) {}
};

}  // namespace osprey
