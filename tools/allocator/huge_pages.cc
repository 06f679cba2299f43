// Programs take their memory from the system in huge pages: a step goes through hundreds of MiB of maps, and with pages
// of 4 KiB a noticeable part of it is spent on finding where they lie.
#include <gperftools/malloc_extension.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <new>

namespace {

class HugePages : public SysAllocator {
 public:
  void* Alloc(size_t size, size_t* actual_size, size_t alignment) override {
    constexpr size_t kLeast = 16 * kPage;  // of what lies together larger pieces can be given out
    const size_t whole = (size + kPage - 1) / kPage * kPage;
    if (whole < size) return nullptr;
    alignment = std::max(alignment, kPage);
    for (const size_t most : {std::max(whole, kLeast), whole})
      if (void* const memory = map(most, alignment)) {
        if (actual_size != nullptr) *actual_size = most;
        return memory;
      }
    return nullptr;
  }

 private:
  static constexpr size_t kPage = size_t{2} << 20;

  /// The last aligned piece of what the system gives: it gives memory from its end on, so this one touches the one
  /// before. Null where there is none.
  static void* map(size_t size, size_t alignment) {
    if (size + alignment < size) return nullptr;
    void* const memory =
        mmap(nullptr, size + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0);
    if (memory == MAP_FAILED) return nullptr;
    char* const first = static_cast<char*>(memory);
    const size_t before = alignment - reinterpret_cast<uintptr_t>(first) % alignment;
    munmap(first, before);
    if (before < alignment) munmap(first + before + size, alignment - before);
    madvise(first + before, size, MADV_HUGEPAGE);  // a wish: the system may have none
    return first + before;
  }
};

/// Before main, as long as little has been allocated; never destroyed, as allocation goes on after it.
[[maybe_unused]] const bool taken = [] {
  alignas(HugePages) static char place[sizeof(HugePages)];
  MallocExtension* const allocator = MallocExtension::instance();
  allocator->SetSystemAllocator(new (place) HugePages);
  allocator->SetMemoryReleaseRate(0);  // the next step needs it again
  return true;
}();

}  // namespace
