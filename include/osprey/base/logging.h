#pragma once
#include <string>

namespace osprey {

/// Sends the log to stderr, one line per message: "I1120 19:23:54.123456 4711 trainer.cc:88] text". Programs call it
/// first; the library itself only writes to spdlog's default logger.
void set_up_logging();

/// Also writes the log to `file`, appending. Replaces the file of an earlier call.
/// throws DataError where the file cannot be opened
void log_to_file(const std::string& file);

/// From now on warnings and errors only, marked with the rank: of several processes that train together one tells the
/// rest.
void log_as_replica(long rank);

}  // namespace osprey
