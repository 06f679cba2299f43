#pragma once
#include <c10/util/FunctionRef.h>

#include <cstdint>

/// The lines of pictures as tasks, for convolutions of each channel by itself and for those of all channels.
namespace osprey::kernels::cpu {

/// Calls `work(task, picture, first line, last + 1)` for the lines of all pictures, few at a time; the tasks do not
/// depend on the number of threads. The last go first: what they read has mostly been written from the first one on,
/// and whoever reads what they write begins with the first, so each finds in the cache what was written last.
void for_lines(int64_t pictures, int64_t lines,
               c10::function_ref<void(int64_t task, int64_t picture, int64_t begin, int64_t end)> work);
/// How many there are of one picture.
int64_t line_tasks(int64_t lines);

}  // namespace osprey::kernels::cpu
