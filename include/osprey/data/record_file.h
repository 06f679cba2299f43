#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace osprey::data {

/// How the whole record file is packed.
enum class Compression { kNone, kGzip, kZlib };

/// Where a record lies, or the annotation of a picture that is read directly; every complaint about a record begins
/// with `describe()`.
struct RecordOrigin {
  std::string file;
  int64_t record = 0;   ///< running number in the file, of an annotated picture in its set; from 0
  int64_t offset = 0;   ///< byte where its frame begins, in the unpacked stream; -1: an annotated picture
  std::string picture;  ///< of a file that annotates several: which one, in its spelling; else ""

  /// "train.record: record 12 (byte 34567)"; of annotations "train.json: street/1.jpg", "train/1.xml"
  std::string describe() const;
};

/// Finds out how a file is packed from its first bytes, never from its name. An empty file is kNone.
/// throws DataError when the file cannot be read
Compression compression_of(const std::string& path);

/// Reads a TFRecord file from front to back.
///
/// Frame: uint64 length, uint32 masked CRC-32C of the length, the bytes, uint32 masked CRC-32C of the bytes; all little
/// endian. Both sums are always checked.
///
///     RecordReader reader("train.record");
///     for (std::string record; reader.next(record);) use(record);
class RecordReader {
 public:
  /// throws DataError when the file cannot be opened
  explicit RecordReader(std::string path);
  ~RecordReader();

  /// Puts the next record into `record`; false at the end of the file.
  /// throws DataError with file and byte offset: a sum that does not fit, a last record cut short, a damaged packing
  bool next(std::string& record);

  /// Where the record that `next` gave last lies.
  const RecordOrigin& origin() const { return origin_; }

 private:
  class Stream;
  std::unique_ptr<Stream> stream_;
  RecordOrigin origin_;
  int64_t records_ = 0;
};

/// Writes a TFRecord file. An existing file of that name is replaced.
class RecordWriter {
 public:
  /// throws DataError when the file cannot be created
  explicit RecordWriter(std::string path, Compression compression = Compression::kNone);
  /// Closes the file, unheard: call `close` to learn of a full disk.
  ~RecordWriter();

  /// throws DataError when the disk does not take it
  void write(std::string_view record);
  /// Hands everything written so far to the operating system.
  void flush();
  /// Ends the file. Nothing may be written afterwards.
  void close();

  int64_t num_records() const { return records_; }

 private:
  class Sink;
  std::unique_ptr<Sink> sink_;
  int64_t records_ = 0;
};

/// The frame of one record, as it stands in an unpacked file.
std::string record_frame(std::string_view record);

}  // namespace osprey::data
