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
    constexpr size_t kPage = size_t{2} << 20, kLeast = 16 * kPage;  // what lies together can be given out together
    alignment = std::max(alignment, kPage);
    size = std::max((size + kPage - 1) / kPage * kPage, kLeast);
    void* const memory =
        mmap(nullptr, size + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0);
    if (memory == MAP_FAILED) return nullptr;
    char* const begin = static_cast<char*>(memory);
    const size_t before = (alignment - reinterpret_cast<uintptr_t>(begin) % alignment) % alignment;
    if (before > 0) munmap(begin, before);
    munmap(begin + before + size, alignment - before);
    madvise(begin + before, size, MADV_HUGEPAGE);  // a wish: the system may have none
    if (actual_size != nullptr) *actual_size = size;
    return begin + before;
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
