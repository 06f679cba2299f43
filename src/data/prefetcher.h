#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace osprey::data {

/// Makes a sequence of items ahead of time on worker threads, each item of several rows that are made independently.
/// Item i is a function of i alone, so the number of threads changes nothing but the speed.
template <class Item>
class Prefetcher {
 public:
  struct Work {
    std::function<Item(int64_t index)> begin;                     ///< an item with its rows empty; may throw
    std::function<int64_t(int64_t index)> num_rows;               ///< how many rows item `index` has, at least 1
    std::function<void(Item&, int64_t index, int64_t row)> fill;  ///< makes one row; may throw
    std::function<void()> enter_thread;                           ///< first call of every worker
  };

  /// count   number of items, or nothing for a sequence without end
  /// ahead   items that may be begun before they are asked for, at least 1
  /// throws  std::system_error or std::bad_alloc where the system gives not a single thread; fewer than asked for do as
  ///         well
  Prefetcher(Work work, std::optional<int64_t> count, int64_t num_threads, int64_t ahead)
      : work_(std::move(work)), count_(count), ahead_(ahead) {
    try {
      for (int64_t i = 0; i < num_threads; ++i) threads_.emplace_back([this] { run(); });
    } catch (...) {
      if (threads_.empty()) throw;  // any number of them is enough
    }
  }
  ~Prefetcher() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_wanted_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The next item; nothing at the end. Throws what the first of its failed rows has thrown, or what kept the item from
  /// being begun, again at every later call until `seek`.
  std::optional<Item> next() {
    std::unique_lock lock(mutex_);
    if (count_ && position_ >= *count_) return std::nullopt;
    started_ = true;
    work_wanted_.notify_all();
    item_done_.wait(lock, [this] { return slots_.empty() ? no_slot_ != nullptr : slots_.front()->missing == 0; });
    if (slots_.empty()) std::rethrow_exception(no_slot_);
    std::shared_ptr<Slot> slot = slots_.front();
    for (const std::exception_ptr& error : slot->errors)
      if (error) std::rethrow_exception(error);
    slots_.pop_front();
    ++position_;
    work_wanted_.notify_all();
    return std::move(slot->item);
  }

  /// Makes item `index` the next one. Rows being made for others are finished and thrown away.
  void seek(int64_t index) {
    std::lock_guard lock(mutex_);
    slots_.clear();
    no_slot_ = nullptr;
    position_ = index;
  }

  int64_t position() const {
    std::lock_guard lock(mutex_);
    return position_;
  }

 private:
  struct Slot {
    int64_t index;
    Item item;
    bool begun = false;                      // there are rows to be made
    int64_t taken = 0, missing;              // rows handed to a worker; rows not finished
    std::vector<std::exception_ptr> errors;  // of each row
  };

  // A slot with a row to make, or a new one that has to be begun; null where there is nothing to do now. What a new one
  // throws, such as bad_alloc, is kept for `next`.
  std::shared_ptr<Slot> slot_with_work() {
    for (const std::shared_ptr<Slot>& slot : slots_)
      if (slot->begun && slot->taken < static_cast<int64_t>(slot->errors.size())) return slot;
    const int64_t index = position_ + static_cast<int64_t>(slots_.size());
    if (!started_ || no_slot_ || static_cast<int64_t>(slots_.size()) > ahead_ || (count_ && index >= *count_))
      return nullptr;
    try {
      const int64_t rows = work_.num_rows(index);
      slots_.push_back(
          std::shared_ptr<Slot>(new Slot{index, {}, false, 0, rows, std::vector<std::exception_ptr>(rows)}));
    } catch (...) {
      no_slot_ = std::current_exception();
      item_done_.notify_all();
      return nullptr;
    }
    return slots_.back();
  }

  void run() {
    work_.enter_thread();
    std::unique_lock lock(mutex_);
    while (true) {
      std::shared_ptr<Slot> slot;
      work_wanted_.wait(lock, [&] { return stopping_ || (slot = slot_with_work()) != nullptr; });
      if (stopping_) return;
      slot->begun ? make_row(*slot, lock) : begin(*slot, lock);
      if (slot->missing == 0) item_done_.notify_all();
    }
  }

  // An item takes a while to begin, too: it may be large. Others make rows of those before it meanwhile.
  void begin(Slot& slot, std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    Item item;
    std::exception_ptr error;
    try {
      item = work_.begin(slot.index);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    slot.item = std::move(item);
    if (error) {  // as if its first row had failed
      slot.errors.front() = error;
      slot.missing = 0;
    } else {
      slot.begun = true;
      work_wanted_.notify_all();
    }
  }

  void make_row(Slot& slot, std::unique_lock<std::mutex>& lock) {
    const int64_t row = slot.taken++;
    lock.unlock();
    std::exception_ptr error;
    try {
      work_.fill(slot.item, slot.index, row);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    slot.errors[row] = error;
    --slot.missing;
  }

  Work work_;
  std::optional<int64_t> count_;
  int64_t ahead_, position_ = 0;
  bool stopping_ = false, started_ = false;
  mutable std::mutex mutex_;
  std::condition_variable work_wanted_, item_done_;
  std::deque<std::shared_ptr<Slot>> slots_;  // the first is that of position_
  std::exception_ptr no_slot_;               // why there is none behind the last of them
  std::vector<std::thread> threads_;
};

}  // namespace osprey::data
