#pragma once

namespace osprey {

/// An axis-aligned box, as fractions of the image unless the name of the variable says `_px`.
struct Box {
  float ymin = 0, xmin = 0, ymax = 0, xmax = 0;

  float height() const { return ymax - ymin; }
  float width() const { return xmax - xmin; }
  float area() const { return height() * width(); }
  bool operator==(const Box&) const = default;
};

}  // namespace osprey
