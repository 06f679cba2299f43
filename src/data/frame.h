#pragma once
#include <cstdint>
#include <string_view>

#include "osprey/data/record_file.h"

namespace osprey::data {

constexpr int64_t kHead = 12;  ///< length and its sum
constexpr int64_t kFoot = 4;   ///< sum of the bytes

/// The length that a frame's head names.
/// available  bytes of the head that are there, at most kHead
/// rest       bytes that follow the head in the file, or -1 where nobody knows
/// throws     DataError with file and byte offset: head cut short, sum wrong, record longer than the file
uint64_t frame_length(const char* head, int64_t available, int64_t rest, const RecordOrigin& origin);

/// throws DataError where the bytes of a record do not fit their sum
void check_payload(std::string_view record, const char* foot, const RecordOrigin& origin);

[[noreturn]] void fail_cut_short(const RecordOrigin& origin, uint64_t wanted, int64_t found);

}  // namespace osprey::data
