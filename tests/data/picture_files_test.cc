#include "osprey/data/picture_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "data/folder_walk.h"
#include "support/temp_dir.h"

namespace osprey::data {
namespace {
using ::osprey::testing::TempDir;
using ::osprey::testing::write_file;
using ::testing::ElementsAre;
namespace fs = std::filesystem;

TEST(PictureFiles, OfAFolderAreThoseBelowItAndWhereLinksLead) {
  TempDir dir, elsewhere;
  write_file(dir / "b/1.jpg", "x");
  write_file(dir / "b/notes.txt", "x");
  write_file(dir / "2.PNG", "x");
  write_file(elsewhere / "deep/3.webp", "x");
  write_file(elsewhere / "4.tif", "x");
  fs::create_directory_symlink(elsewhere.path(), dir / "a");
  fs::create_symlink(elsewhere / "4.tif", dir / "linked.tif");
  fs::create_symlink(elsewhere / "missing", dir / "dead.jpg");
  EXPECT_THAT(pictures_below(dir.path().string()),
              ElementsAre(dir / "2.PNG", dir / "a/4.tif", dir / "a/deep/3.webp", dir / "b/1.jpg", dir / "linked.tif"));
  EXPECT_THAT(pictures_below(dir / "a"), ElementsAre(dir / "a/4.tif", dir / "a/deep/3.webp"));
  EXPECT_THROW(pictures_below(dir / "missing"), fs::filesystem_error);
}

TEST(PictureFiles, OfAFolderThatIsReachedInSeveralWaysAreThereOnce) {
  TempDir dir, elsewhere;
  write_file(dir / "z/1.jpg", "x");
  write_file(elsewhere / "2.jpg", "x");
  fs::create_directory_symlink(dir / "z", dir / "a");        // to a folder that is there itself
  fs::create_directory_symlink(dir.path(), dir / "z/ring");  // to the one that is searched
  fs::create_directory_symlink("itself", dir / "itself");
  for (const char* name : {"c", "b"}) fs::create_directory_symlink(elsewhere.path(), dir / name);
  fs::create_directory_symlink(dir / "c", elsewhere / "back");  // a ring outside
  EXPECT_THAT(pictures_below(dir.path().string()), ElementsAre(dir / "b/2.jpg", dir / "z/1.jpg"));
}

TEST(FolderWalk, AFolderThatVanishesBeforeItIsEnteredIsPassedOver) {
  TempDir dir;
  for (const char* file : {"a/1.jpg", "b/2.jpg"}) write_file(dir / file, "x");
  std::vector<std::string> found;
  for_each_below(dir.path(), [&](const fs::path& path, fs::file_type type) {
    if (path.filename() == "a") fs::remove_all(path);
    if (type == fs::file_type::regular) found.push_back(path.string());
  });
  EXPECT_THAT(found, ElementsAre(dir / "b/2.jpg"));
}

TEST(FolderWalk, LinksToFoldersArePassedOverWhereThatIsAsked) {
  TempDir dir, elsewhere;
  write_file(dir / "a/1.txt", "x");
  write_file(elsewhere / "2.txt", "x");
  fs::create_directory_symlink(elsewhere.path(), dir / "linked");
  fs::create_symlink(elsewhere / "2.txt", dir / "3.txt");
  const auto all = [](const fs::path&) { return true; };
  EXPECT_THAT(files_below(dir.path(), all, Links::kPassedOver), ElementsAre(dir / "3.txt", dir / "a/1.txt"));
  EXPECT_THAT(files_below(dir.path(), all), ElementsAre(dir / "3.txt", dir / "a/1.txt", dir / "linked/2.txt"));
}

}  // namespace
}  // namespace osprey::data
