#include "data/augmentations/autoaugment_policies.h"

namespace osprey::data {
namespace {
Policy policy_v0() {
  return {{{"TranslateX_BBox", 0.6f, 4}, {"Equalize", 0.8f, 10}},
          {{"TranslateY_Only_BBoxes", 0.2f, 2}, {"Cutout", 0.8f, 8}},
          {{"Sharpness", 0.0f, 8}, {"ShearX_BBox", 0.4f, 0}},
          {{"ShearY_BBox", 1.0f, 2}, {"TranslateY_Only_BBoxes", 0.6f, 6}},
          {{"Rotate_BBox", 0.6f, 10}, {"Color", 1.0f, 6}}};
}

// The lists of v0 and fifteen more.
Policy policy_v1() {
  Policy policy = policy_v0();
  const Policy more = {{{"Color", 0.0f, 0}, {"ShearX_Only_BBoxes", 0.8f, 4}},
                       {{"ShearY_Only_BBoxes", 0.8f, 2}, {"Flip_Only_BBoxes", 0.0f, 10}},
                       {{"Equalize", 0.6f, 10}, {"TranslateX_BBox", 0.2f, 2}},
                       {{"Color", 1.0f, 10}, {"TranslateY_Only_BBoxes", 0.4f, 6}},
                       {{"Rotate_BBox", 0.8f, 10}, {"Contrast", 0.0f, 10}},
                       {{"Cutout", 0.2f, 2}, {"Brightness", 0.8f, 10}},
                       {{"Color", 1.0f, 6}, {"Equalize", 1.0f, 2}},
                       {{"Cutout_Only_BBoxes", 0.4f, 6}, {"TranslateY_Only_BBoxes", 0.8f, 2}},
                       {{"Color", 0.2f, 8}, {"Rotate_BBox", 0.8f, 10}},
                       {{"Sharpness", 0.4f, 4}, {"TranslateY_Only_BBoxes", 0.0f, 4}},
                       {{"Sharpness", 1.0f, 4}, {"SolarizeAdd", 0.4f, 4}},
                       {{"Rotate_BBox", 1.0f, 8}, {"Sharpness", 0.2f, 8}},
                       {{"ShearY_BBox", 0.6f, 10}, {"Equalize_Only_BBoxes", 0.6f, 8}},
                       {{"ShearX_BBox", 0.2f, 6}, {"TranslateY_Only_BBoxes", 0.2f, 10}},
                       {{"SolarizeAdd", 0.6f, 8}, {"Brightness", 0.8f, 10}}};
  policy.insert(policy.end(), more.begin(), more.end());
  return policy;
}

Policy policy_v2() {
  return {{{"Color", 0.0f, 6}, {"Cutout", 0.6f, 8}, {"Sharpness", 0.4f, 8}},
          {{"Rotate_BBox", 0.4f, 8}, {"Sharpness", 0.4f, 2}, {"Rotate_BBox", 0.8f, 10}},
          {{"TranslateY_BBox", 1.0f, 8}, {"AutoContrast", 0.8f, 2}},
          {{"AutoContrast", 0.4f, 6}, {"ShearX_BBox", 0.8f, 8}, {"Brightness", 0.0f, 10}},
          {{"SolarizeAdd", 0.2f, 6}, {"Contrast", 0.0f, 10}, {"AutoContrast", 0.6f, 0}},
          {{"Cutout", 0.2f, 0}, {"Solarize", 0.8f, 8}, {"Color", 1.0f, 4}},
          {{"TranslateY_BBox", 0.0f, 4}, {"Equalize", 0.6f, 8}, {"Solarize", 0.0f, 10}},
          {{"TranslateY_BBox", 0.2f, 2}, {"ShearY_BBox", 0.8f, 8}, {"Rotate_BBox", 0.8f, 8}},
          {{"Cutout", 0.8f, 8}, {"Brightness", 0.8f, 8}, {"Cutout", 0.2f, 2}},
          {{"Color", 0.8f, 4}, {"TranslateY_BBox", 1.0f, 6}, {"Rotate_BBox", 0.6f, 6}},
          {{"Rotate_BBox", 0.6f, 10}, {"BBox_Cutout", 1.0f, 4}, {"Cutout", 0.2f, 8}},
          {{"Rotate_BBox", 0.0f, 0}, {"Equalize", 0.6f, 6}, {"ShearY_BBox", 0.6f, 8}},
          {{"Brightness", 0.8f, 8}, {"AutoContrast", 0.4f, 2}, {"Brightness", 0.2f, 2}},
          {{"TranslateY_BBox", 0.4f, 8}, {"Solarize", 0.4f, 6}, {"SolarizeAdd", 0.2f, 10}},
          {{"Contrast", 1.0f, 10}, {"SolarizeAdd", 0.2f, 8}, {"Equalize", 0.2f, 4}}};
}

Policy policy_v3() {
  return {
      {{"Posterize", 0.8f, 2}, {"TranslateX_BBox", 1.0f, 8}},   {{"BBox_Cutout", 0.2f, 10}, {"Sharpness", 1.0f, 8}},
      {{"Rotate_BBox", 0.6f, 8}, {"Rotate_BBox", 0.8f, 10}},    {{"Equalize", 0.8f, 10}, {"AutoContrast", 0.2f, 10}},
      {{"SolarizeAdd", 0.2f, 2}, {"TranslateY_BBox", 0.2f, 8}}, {{"Sharpness", 0.0f, 2}, {"Color", 0.4f, 8}},
      {{"Equalize", 1.0f, 8}, {"TranslateY_BBox", 1.0f, 8}},    {{"Posterize", 0.6f, 2}, {"Rotate_BBox", 0.0f, 10}},
      {{"AutoContrast", 0.6f, 0}, {"Rotate_BBox", 1.0f, 6}},    {{"Equalize", 0.0f, 4}, {"Cutout", 0.8f, 10}},
      {{"Brightness", 1.0f, 2}, {"TranslateY_BBox", 1.0f, 6}},  {{"Contrast", 0.0f, 2}, {"ShearY_BBox", 0.8f, 0}},
      {{"AutoContrast", 0.8f, 10}, {"Contrast", 0.2f, 10}},     {{"Rotate_BBox", 1.0f, 10}, {"Cutout", 1.0f, 10}},
      {{"SolarizeAdd", 0.8f, 6}, {"Equalize", 0.8f, 8}}};
}
}  // namespace

Policy policy_named(const std::string& name) {
  if (name == "v0") return policy_v0();
  if (name == "v1") return policy_v1();
  if (name == "v2") return policy_v2();
  if (name == "v3") return policy_v3();
  if (name == "test") return {{{"TranslateX_BBox", 1.0f, 4}, {"Equalize", 1.0f, 10}}};
  return {};
}

}  // namespace osprey::data
