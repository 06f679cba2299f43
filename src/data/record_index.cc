#include "osprey/data/record_index.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "byte_stream.h"
#include "frame.h"
#include "osprey/base/error.h"
#include "osprey/data/input_paths.h"

namespace osprey::data {
namespace {

// A file read at any place by any thread: bytes in memory, or a descriptor.
class Source {
 public:
  virtual ~Source() = default;
  virtual int64_t size() const = 0;
  /// Fewer than `count` bytes only at the end.
  virtual int64_t read(int64_t offset, char* out, int64_t count) const = 0;
};

class UnpackedSource final : public Source {
 public:
  UnpackedSource(const std::string& path, Compression compression) {
    const int64_t limit = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE) / 2;
    ByteStream stream(path, compression);
    constexpr size_t kStep = 1 << 22;
    for (size_t count = kStep; count == kStep;) {
      const size_t before = bytes_.size();
      bytes_.resize(before + kStep);
      count = stream.read(bytes_.data() + before, kStep);
      bytes_.resize(before + count);
      if (static_cast<int64_t>(bytes_.size()) > limit)
        throw DataError(
            fmt::format("{}: packed files are unpacked into memory, and this one takes more than half of it ({} MB); "
                        "unpack it on disk",
                        path, limit >> 20));
    }
    bytes_.shrink_to_fit();
  }
  int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
  int64_t read(int64_t offset, char* out, int64_t count) const override {
    count = std::clamp<int64_t>(size() - offset, 0, count);
    std::copy_n(bytes_.data() + offset, count, out);
    return count;
  }

 private:
  std::string bytes_;
};

class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) fail_io(path, "cannot open");
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

class FileSource final : public Source {
 public:
  // keep_open  else the file is opened for every read, so that any number of shards can be used
  FileSource(std::string path, bool keep_open) : path_(std::move(path)) {
    auto descriptor = std::make_unique<Descriptor>(path_);
    struct stat status {};
    if (::fstat(descriptor->get(), &status) != 0) fail_io(path_, "cannot open");
    size_ = status.st_size;
    if (keep_open) kept_ = std::move(descriptor);
  }
  int64_t size() const override { return size_; }
  int64_t read(int64_t offset, char* out, int64_t count) const override {
    if (kept_) return read(kept_->get(), offset, out, count);
    return read(Descriptor(path_).get(), offset, out, count);
  }

 private:
  int64_t read(int fd, int64_t offset, char* out, int64_t count) const {
    int64_t done = 0;
    while (done < count) {
      const ssize_t part = ::pread(fd, out + done, static_cast<size_t>(count - done), offset + done);
      if (part == 0) break;
      if (part < 0 && errno == EINTR) continue;
      if (part < 0) fail_io(path_, fmt::format("cannot read at byte {}", offset + done));
      done += part;
    }
    return done;
  }

  std::string path_;
  int64_t size_ = 0;
  std::unique_ptr<Descriptor> kept_;
};

constexpr size_t kMaxKeptOpen = 256;

}  // namespace

struct RecordIndex::Impl {
  std::string reader;
  std::vector<std::string> files;
  std::vector<std::unique_ptr<Source>> sources;
  std::vector<int64_t> first;  // number of the first record of each file
  struct Place {
    int64_t offset;  // of the frame
    int64_t length;  // of the record
  };
  std::vector<Place> places;
  int64_t total_bytes = 0;

  void open(const std::string& path) {
    const Compression compression = compression_of(path);
    if (compression == Compression::kNone)
      sources.push_back(std::make_unique<FileSource>(path, sources.size() < kMaxKeptOpen));
    else
      sources.push_back(std::make_unique<UnpackedSource>(path, compression));
    first.push_back(static_cast<int64_t>(places.size()));
    const Source& source = *sources.back();
    RecordOrigin origin{path, 0, 0};
    while (origin.offset < source.size()) {
      char head[kHead];
      const int64_t available = source.read(origin.offset, head, kHead);
      const uint64_t length = frame_length(head, available, source.size() - origin.offset - kHead, origin);
      places.push_back({origin.offset, static_cast<int64_t>(length)});
      total_bytes += places.back().length;
      origin.offset += kHead + places.back().length + kFoot;
      ++origin.record;
    }
  }

  size_t file_of(int64_t index) const {
    return static_cast<size_t>(std::upper_bound(first.begin(), first.end(), index) - first.begin()) - 1;
  }

  void check(int64_t index) const {
    TORCH_CHECK(index >= 0 && index < static_cast<int64_t>(places.size()), "record ", index, " of ", places.size());
  }
};

RecordIndex::RecordIndex(const std::vector<std::string>& paths, std::string reader) : impl_(std::make_unique<Impl>()) {
  impl_->reader = std::move(reader);
  impl_->files = expand_input_paths(paths, impl_->reader);
  for (const std::string& file : impl_->files) impl_->open(file);
  if (impl_->places.empty())
    throw DataError(fmt::format("{}: 0 examples in {} file{}, the first being {}", impl_->reader, impl_->files.size(),
                                impl_->files.size() == 1 ? "" : "s", impl_->files.front()));
}

RecordIndex::~RecordIndex() = default;
RecordIndex::RecordIndex(RecordIndex&&) noexcept = default;

int64_t RecordIndex::size() const { return static_cast<int64_t>(impl_->places.size()); }
const std::vector<std::string>& RecordIndex::files() const { return impl_->files; }
int64_t RecordIndex::total_bytes() const { return impl_->total_bytes; }

RecordOrigin RecordIndex::origin(int64_t index) const {
  impl_->check(index);
  const size_t file = impl_->file_of(index);
  return {impl_->files[file], index - impl_->first[file], impl_->places[static_cast<size_t>(index)].offset};
}

std::string RecordIndex::read(int64_t index) const {
  impl_->check(index);
  const Impl::Place& place = impl_->places[static_cast<size_t>(index)];
  std::string record(static_cast<size_t>(place.length + kFoot), '\0');
  const int64_t count =
      impl_->sources[impl_->file_of(index)]->read(place.offset + kHead, record.data(), place.length + kFoot);
  if (count < place.length + kFoot)
    fail_cut_short(origin(index), static_cast<uint64_t>(kHead + place.length + kFoot), kHead + count);
  char foot[kFoot];
  std::copy_n(record.data() + place.length, kFoot, foot);
  record.resize(static_cast<size_t>(place.length));
  check_payload(record, foot, origin(index));
  return record;
}

}  // namespace osprey::data
