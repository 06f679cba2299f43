#include "kernels/cpu/line_tasks.h"

#include "osprey/kernels/parallel.h"

namespace osprey::kernels::cpu {

int64_t line_tasks(int64_t lines) {
  constexpr int64_t kLinesOfATask = 16;  // about
  return (lines + kLinesOfATask - 1) / kLinesOfATask;
}

void for_lines(int64_t pictures, int64_t lines,
               c10::function_ref<void(int64_t task, int64_t picture, int64_t begin, int64_t end)> work) {
  const int64_t tasks = line_tasks(lines);
  const auto run = [&](int64_t i) {
    const int64_t of_picture = i % tasks;
    work(i, i / tasks, of_picture * lines / tasks, (of_picture + 1) * lines / tasks);
  };
  parallel_for(pictures * tasks, run, Order::kLastFirst);
}

}  // namespace osprey::kernels::cpu
