#pragma once
#include <string>

namespace osprey {

/// Sends the log to stderr, one line per message: "I1120 19:23:54.123456 4711 trainer.cc:88] text". Programs call it
/// first; the library itself only writes to spdlog's default logger.
void set_up_logging();

/// Also writes the log to `file`, appending, and what was logged since `set_up_logging` and went to no file. Replaces
/// the file of an earlier call.
/// throws DataError where the file cannot be opened
void log_to_file(const std::string& file);

/// Writes an error into the file of the log alone, where there is one: for what is shown on stderr in another form.
void note_in_log_file(const std::string& message);

/// From now on warnings and errors only, marked with the rank: of several processes that train together one tells the
/// rest.
void log_as_replica(long rank);

}  // namespace osprey
