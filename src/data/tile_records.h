#pragma once
#include <string>
#include <vector>

#include "osprey/config/label_map.h"
#include "osprey/data/create_records.h"
#include "osprey/data/random.h"

namespace osprey::data {

/// The records of an annotated picture: of itself, where it is not larger than a tile or wanted beside its tiles, and
/// of its tiles, row by row.
///
/// key      of the draws by which tiles without objects are left out
/// returns  none, counted, where the picture is missing, cannot be decoded or would have too many tiles
std::vector<std::string> records_with_tiles(AnnotatedImage image, const config::LabelMap& map, const RecordTiles& tiles,
                                            const RandomKey& key, Problems& problems, RecordCounts& counts);

}  // namespace osprey::data
