#include "checkpoint/table_file.h"

#include <leveldb/env.h>
#include <leveldb/iterator.h>
#include <leveldb/options.h>
#include <leveldb/table.h>

#include <fstream>
#include <memory>
#include <string>

#include "checkpoint/fail.h"

namespace osprey::checkpoint {
namespace {

constexpr std::string_view kTableMagic("\x57\xfb\x80\x8b\x24\x75\x47\xdb", 8);

void check(const std::filesystem::path& file, const leveldb::Status& status) {
  if (!status.ok()) fail(file, "cannot be read as a table: " + status.ToString());
}

}  // namespace

bool is_table(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string end(kTableMagic.size(), '\0');
  return in.seekg(-static_cast<std::streamoff>(end.size()), std::ios::end) &&
         in.read(end.data(), static_cast<std::streamsize>(end.size())) && end == kTableMagic;
}

void for_each_entry(const std::filesystem::path& file,
                    const std::function<void(std::string_view, std::string_view)>& action) {
  leveldb::Env& env = *leveldb::Env::Default();
  uint64_t size = 0;
  check(file, env.GetFileSize(file.string(), &size));
  leveldb::RandomAccessFile* opened = nullptr;
  check(file, env.NewRandomAccessFile(file.string(), &opened));
  const std::unique_ptr<leveldb::RandomAccessFile> bytes(opened);
  leveldb::Options options;
  options.paranoid_checks = true;
  leveldb::Table* made = nullptr;
  check(file, leveldb::Table::Open(options, bytes.get(), size, &made));
  const std::unique_ptr<leveldb::Table> table(made);
  leveldb::ReadOptions reading;
  reading.verify_checksums = true;
  reading.fill_cache = false;
  const std::unique_ptr<leveldb::Iterator> entry(table->NewIterator(reading));
  for (entry->SeekToFirst(); entry->Valid(); entry->Next())
    action({entry->key().data(), entry->key().size()}, {entry->value().data(), entry->value().size()});
  check(file, entry->status());
}

}  // namespace osprey::checkpoint
