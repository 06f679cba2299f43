#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "osprey/boxes/tiles.h"
#include "osprey/data/annotations.h"

namespace osprey::data {

/// How pictures are cut into tiles, each a record of its own, for a detector that will look at tiles: `TileOptions`
/// says where they lie, and whether the whole picture is a record, too; side_px 0: nothing is cut.
struct RecordTiles : boxes::TileOptions {
  /// Share of a box, in [0, 1], that has to lie in a tile to be an object of it. Of others what lies there gets
  /// weight 0, see `AnnotatedObject::ignored`, but for strips below a pixel, which are left out.
  double min_visible = 0.5;
  double background = 1;  ///< share of the tiles without objects, in [0, 1], that become records
};

struct CreateRecordsOptions {
  using Format = AnnotationFormat;
  Format format = Format::kVoc;
  std::string input, image_dir, split, class_descriptions;  ///< as in `AnnotationSet`; unused by shapes
  std::string label_map;                                    ///< obeyed where the file exists, else written
  /// "train.record", or with shards "train.record-00000-of-00010" ...; "train-?????-of-00010.tfrecord" stands for as
  /// many shards with the number in the place of the question marks
  std::string output;
  int num_shards = 1;
  int64_t num_images = 0;  ///< the first so many; 0: all (shapes: 1000)
  uint64_t seed = 0;       ///< of shapes, and of the draw of tiles without objects
  int num_workers = 0;     ///< 0: one per processor
  RecordTiles tiles = {};
};

/// What records hold.
struct RecordCounts {
  int64_t num_whole = 0, num_tiles = 0;  ///< records of whole pictures, of tiles
  int64_t num_cut = 0;                   ///< boxes of tiles that are ignored, since too little of them lies there
  int64_t num_background = 0;            ///< tiles without objects that were left out
  std::map<std::string, int64_t> objects_of_class;  ///< in all records, without those that are ignored

  RecordCounts& operator+=(const RecordCounts& other);
};

struct CreateRecordsResult : RecordCounts {
  int64_t num_images = 0;          ///< pictures that were used
  int64_t num_objects = 0;         ///< of all classes
  std::vector<std::string> files;  ///< written, in order
  bool label_map_written = false;
  std::vector<std::string> problems;  ///< one line for each kind
};

/// Writes annotated pictures as tf.Example records.
///
/// Pictures are copied byte by byte, tiles of a JPEG encoded as one of quality 95, others as PNG; each is decoded once
/// to see that it can be. A picture that is missing or damaged is left out and counted. Boxes are cut to the picture;
/// empty and inverted ones and those of classes that the label map does not have are left out and counted. Output
/// appears whole at the end or not at all; nothing else is written or changed. The same input gives the same bytes for
/// any number of workers. In memory are 16 pictures per worker, or one with its tiles.
///
/// Tiles are cut from the picture as readers turn it (`exif: AUTO`), have its source_id and file name with their corner
/// ("a.jpg_x480_y0"), and lie in the shard of their picture. One that is no larger than a tile is copied as it is.
///
/// progress  called from time to time with pictures done and their total; may be empty
/// throws    ConfigError: options that do not go together, a label map that has none of the classes; DataError:
///           nothing to read, no picture or no object usable, a file that cannot be written
CreateRecordsResult create_records(const CreateRecordsOptions& options,
                                   const std::function<void(int64_t done, int64_t total)>& progress = {});

}  // namespace osprey::data
