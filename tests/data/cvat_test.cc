#include "osprey/data/cvat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numbers>

#include "osprey/base/error.h"
#include "support/temp_dir.h"

namespace osprey::data {
namespace {
using ::osprey::testing::TempDir;
using ::osprey::testing::write_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::ThrowsMessage;

class Cvat : public ::testing::Test {
 protected:
  static std::string image(const std::string& name, const std::string& shapes = "", const std::string& more = "") {
    return "<image id=\"7\" name=\"" + name + "\" " + more + " width=\"40\" height=\"30\">" + shapes + "</image>";
  }
  static std::string box(const std::string& corners, const std::string& attributes = "",
                         const std::string& label = "dog") {
    return "<box label=\"" + label + "\" source=\"manual\" occluded=\"1\" " + corners + " z_order=\"0\">" + attributes +
           "</box>";
  }
  static constexpr const char* kCorners = "xtl=\"1.5\" ytl=\"2\" xbr=\"10\" ybr=\"20.25\"";

  void write(const std::string& images, const std::string& meta = "") {
    write_file(dir_ / "annotations.xml",
               "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<annotations><version>1.1</version>" + meta + images +
                   "</annotations>\n");
  }
  std::unique_ptr<AnnotationSource> open(const std::string& split = "", const std::string& image_dir = "") {
    return open_cvat({dir_.path().string(), image_dir, split}, problems_);
  }
  AnnotatedImage read(const AnnotationSource& source, int64_t index) {
    AnnotatedImage image;
    EXPECT_TRUE(source.read(index, image, problems_));
    return image;
  }
  /// The only object of a picture with this shape.
  AnnotatedObject object(const std::string& shape) {
    write(image("a.jpg", shape));
    const AnnotatedImage picture = read(*open(), 0);
    EXPECT_EQ(picture.objects.size(), 1u) << shape;
    return picture.objects.empty() ? AnnotatedObject() : picture.objects[0];
  }
  void expect_refused(const std::string& text, const std::string& what) {
    write_file(dir_ / "annotations.xml", text);
    EXPECT_THAT([&] { open(); }, ThrowsMessage<DataError>(AllOf(HasSubstr("annotations.xml: "), HasSubstr(what))))
        << text;
  }

  TempDir dir_;
  Problems problems_;
};

TEST_F(Cvat, ReadsBoxesAndTheirFlags) {
  write(image("a.jpg", box(kCorners,
                           "<attribute name=\"Difficult\">True</attribute><attribute name=\"truncated\">1"
                           "</attribute><attribute name=\"is_crowd\">true</attribute>"
                           "<attribute name=\"is_group_of\">1</attribute>") +
                           box(kCorners, "<attribute name=\"difficult\">false</attribute>", " cat ")) +
        image("b.jpg"));
  write_file(dir_ / "images/a.jpg", "x");
  const auto source = open();
  ASSERT_EQ(source->size(), 2);
  const AnnotatedImage a = read(*source, 0);
  EXPECT_EQ(a.source_id, "a.jpg");
  EXPECT_EQ(a.path, dir_ / "images/a.jpg");
  EXPECT_EQ(a.width, 40);
  EXPECT_EQ(a.height, 30);
  ASSERT_EQ(a.objects.size(), 2u);
  EXPECT_EQ(a.objects[0].name, "dog");
  EXPECT_EQ(a.objects[0].box_px, (Box{2, 1.5f, 20.25f, 10}));
  EXPECT_EQ(a.objects[0].area_px, 0) << "that of the box";
  EXPECT_TRUE(a.objects[0].difficult && a.objects[0].truncated && a.objects[0].is_crowd && a.objects[0].group_of);
  EXPECT_EQ(a.objects[1].name, "cat");
  EXPECT_FALSE(a.objects[1].difficult || a.objects[1].truncated || a.objects[1].is_crowd || a.objects[1].group_of);
  EXPECT_THAT(read(*source, 1).objects, IsEmpty());
  EXPECT_EQ(source->origin(1).file, dir_ / "annotations.xml");
  EXPECT_THAT(problems_.lines(), IsEmpty());
}

TEST_F(Cvat, OfOtherShapesTheBoxAroundThemIsTakenAndCounted) {
  const AnnotatedObject triangle = object("<polygon label=\"a\" points=\"10.00,5;30,5.0;10,15\"/>");
  EXPECT_EQ(triangle.box_px, (Box{5, 10, 15, 30}));
  EXPECT_FLOAT_EQ(triangle.area_px, 100) << "half of 20 * 10";
  // Turned by 90 degrees about (20, 10), 20 x 10 stands upright; by 45 its corners are 15 / sqrt(2) from the centre.
  const std::string lying = "label=\"a\" xtl=\"10\" ytl=\"5\" xbr=\"30\" ybr=\"15\"";
  const auto expect_near = [](const Box& box, const Box& expected) {
    for (auto side : {&Box::ymin, &Box::xmin, &Box::ymax, &Box::xmax}) EXPECT_NEAR(box.*side, expected.*side, 1e-4);
  };
  const AnnotatedObject upright = object("<box " + lying + " rotation=\"90.00\"/>");
  expect_near(upright.box_px, {0, 15, 20, 25});
  EXPECT_NEAR(upright.area_px, 200, 1e-3);
  const auto half = static_cast<float>(15 / std::numbers::sqrt2);
  expect_near(object("<box " + lying + " rotation=\"45\"/>").box_px, {10 - half, 20 - half, 10 + half, 20 + half});
  const std::string round = "<ellipse label=\"a\" cx=\"20\" cy=\"10\" rx=\"8\" ry=\"4\"";
  const AnnotatedObject ellipse = object(round + "/>");
  expect_near(ellipse.box_px, {6, 12, 14, 28});
  EXPECT_NEAR(ellipse.area_px, 32 * std::numbers::pi, 1e-3);
  expect_near(object(round + " rotation=\"90\"/>").box_px, {2, 16, 18, 24});
  // 5 x 2 pixels, of which 2 + 3 are the object's.
  const std::string mask = "<mask label=\"a\" left=\"3\" top=\"4\" width=\"5\" height=\"2\" rle=";
  const AnnotatedObject pixels = object(mask + "\"1, 2, 4, 3\"/>");
  EXPECT_EQ(pixels.box_px, (Box{4, 3, 6, 8}));
  EXPECT_EQ(pixels.area_px, 5);
  EXPECT_EQ(object(mask + "\"1, 2\"/>").area_px, 0) << "runs that do not fill the box";
  EXPECT_EQ(object("<box " + lying + " rotation=\"0.00\"/>").area_px, 0) << "not turned";
  EXPECT_THAT(
      problems_.lines(),
      ElementsAre(AllOf(HasSubstr("2 ellipse(s) taken as the boxes around them"), HasSubstr("a.jpg object 0")),
                  HasSubstr("2 mask(s) taken"), HasSubstr("1 polygon(s) taken"), HasSubstr("2 turned box(es) taken")));
}

TEST_F(Cvat, WhatIsNoBoxIsLeftOutAndCounted) {
  write(image("a.jpg",
              "<polyline label=\"a\" points=\"1,1;2,2\"/><points label=\"a\" points=\"1,1\"/><tag label=\"a\"/>"
              "<skeleton label=\"a\"><points label=\"b\" points=\"1,1\"/></skeleton><cuboid label=\"a\"/>" +
                  box(kCorners)));
  const auto source = open();
  EXPECT_EQ(read(*source, 0).objects.size(), 1u);
  EXPECT_EQ(problems_.count("object(s) left out, being no boxes but of kind "), 5);
  EXPECT_EQ(problems_.count("object(s) left out, being no boxes but of kind 'polyline'"), 1);
  EXPECT_THAT(source->classes(), ElementsAre(Pair(1, "dog")));
}

TEST_F(Cvat, DamagedObjectsAreCountedAndNamed) {
  write(image("a.jpg", box("xtl=\"1\" ytl=\"nan\" xbr=\"3\" ybr=\"4\"") + box("xtl=\"1\" ytl=\"2\" xbr=\"3\"") +
                           box("xtl=\"-1e300\" ytl=\"2\" xbr=\"inf\" ybr=\"3\"") + box(kCorners, "", " ") +
                           box("xtl=\"1e300\" ytl=\"2\" xbr=\"3e300\" ybr=\"4\" rotation=\"1e30\"") +
                           box("xtl=\"1\" ytl=\"2\" xbr=\"3\" ybr=\"4\" rotation=\"much\"") +
                           "<polygon label=\"a\" points=\"\"/><polygon label=\"a\" points=\"1,2;3\"/>"
                           "<polygon label=\"a\" points=\"1,2;x,4\"/><ellipse label=\"a\"/><mask label=\"a\"/>"));
  EXPECT_THAT(read(*open(), 0).objects, IsEmpty());
  EXPECT_EQ(problems_.count("object(s) left out, their coordinates not being numbers"), 10);
  EXPECT_THAT(problems_.lines(), ElementsAre(HasSubstr("1 object(s) left out, having no label: " +
                                                       (dir_ / "annotations.xml") + ": a.jpg object 3"),
                                             HasSubstr("coordinates not being numbers")));
}

TEST_F(Cvat, LabelsOfTheTaskAreNumberedInTheirOrder) {
  const std::string labels =
      "<labels><label><name>zebra</name><type>rectangle</type></label><label><name>dog</name></label>"
      "<label><name>person</name><type>skeleton</type></label><label><name>nose</name><type>points</type><parent>person"
      "</parent></label><label><name>sunny</name><type>tag</type></label></labels>";
  for (const char* owner : {"task", "project", "job"}) {
    write(image("a.jpg", box(kCorners, "", "dog") + box(kCorners, "", "emu") + box(kCorners, "", "cat")),
          "<meta><" + std::string(owner) + ">" + labels + "</" + owner + "><dumped>2024</dumped></meta>");
    EXPECT_THAT(open()->classes(), ElementsAre(Pair(1, "zebra"), Pair(2, "dog"), Pair(3, "cat"), Pair(4, "emu")))
        << owner;
  }
  write(image("a.jpg", box(kCorners, "", "dog") + box(kCorners, "", "cat")));
  EXPECT_THAT(open()->classes(), ElementsAre(Pair(1, "cat"), Pair(2, "dog"))) << "no <meta>";
}

TEST_F(Cvat, PicturesOfSubsetsAreToldApart) {
  write(image("1.jpg", box(kCorners, "", "cat"), "subset=\"Train\"") + image("1.jpg", "", "subset=\"Val\"") +
        image("Val/2.jpg", "", "subset=\"Val\"") + image("1.jpg", box(kCorners), "subset=\"Train\""));
  for (const char* name : {"images/Train/1.jpg", "images/Val/1.jpg", "images/Val/2.jpg"}) write_file(dir_ / name, "x");
  const auto source = open();
  ASSERT_EQ(source->size(), 3);
  EXPECT_EQ(read(*source, 0).path, dir_ / "images/Train/1.jpg");
  EXPECT_EQ(read(*source, 0).source_id, "Train/1.jpg");
  EXPECT_EQ(read(*source, 1).path, dir_ / "images/Val/1.jpg");
  EXPECT_EQ(read(*source, 2).path, dir_ / "images/Val/2.jpg");
  EXPECT_THAT(problems_.lines(), ElementsAre(AllOf(HasSubstr("1 picture(s) left out, having the name of another"),
                                                   HasSubstr("Train/1.jpg"))));
  const auto validation = open("Val");
  ASSERT_EQ(validation->size(), 2);
  EXPECT_EQ(read(*validation, 1).file_name, "Val/2.jpg");
  EXPECT_THAT(validation->classes(), ElementsAre(Pair(1, "cat"))) << "of all data";
  write_file(dir_ / "list.txt", "Val/1\r\n");
  EXPECT_EQ(read(*open(dir_ / "list.txt"), 0).file_name, "Val/1.jpg");
  EXPECT_THAT([&] { open("Test"); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("--split Test"), HasSubstr("(Train, Val)"))));
  // A picture of another subset is another picture.
  std::filesystem::remove(dir_ / "images/Val/1.jpg");
  EXPECT_EQ(read(*source, 1).path, "");
  EXPECT_EQ(problems_.count("picture(s) of the name but in another folder, not taken"), 1);
}

TEST_F(Cvat, PicturesOfOtherLayoutsAreFound) {
  const auto place = [&](const std::string& name, const std::string& picture, const std::string& more = "") {
    TempDir dir;
    write_file(dir / "labels.xml", "<annotations>" + image(name, "", more) + "</annotations>");
    write_file(dir / picture, "x");
    const auto source = open_cvat({dir.path().string(), "", ""}, problems_);
    EXPECT_EQ(read(*source, 0).path, dir / picture);
  };
  place("a.jpg", "data/a.jpg");
  place("a.jpg", "images/default/a.jpg");
  place("a.jpg", "data/a.jpg", "subset=\"default\"");
  place("deep/a.jpg", "images/train/deep/a.jpg", "subset=\"train\"");
  place("C:\\set\\a.jpg", "images/a.jpg");
  place("frame_000001", "images/frame_000001.PNG");
  place("a.b", "images/a.b.jpeg");
  write(image("frame_2"));
  EXPECT_EQ(read(*open(), 0).file_name, "frame_2.jpg") << "not found";
  EXPECT_EQ(read(*open(), 0).path, "");
  write_file(dir_ / "elsewhere/a.png", "x");
  write(image("a.png"));
  EXPECT_EQ(read(*open("", dir_ / "elsewhere"), 0).path, dir_ / "elsewhere/a.png");
}

TEST_F(Cvat, FilesThatAreNoneAreErrors) {
  EXPECT_THAT([&] { open(); }, ThrowsMessage<DataError>(HasSubstr("has no annotations.xml or labels.xml")));
  EXPECT_THAT(
      [&] {
        open_cvat({dir_ / "no.xml", "", ""}, problems_);
      },
      ThrowsMessage<DataError>(AllOf(HasSubstr("no.xml: cannot be read"), HasSubstr("No such file"))));
  expect_refused("", "is no XML: No document element found");
  expect_refused("PK\x03\x04 and so on", "is a ZIP archive; unpack it");
  expect_refused("Car 0 0 0", "is no XML");
  expect_refused("<annotations><image id=\"0\" name=\"a.jpg\"><box", "is no XML: ");
  expect_refused("<annotations><image", "at byte");
  expect_refused("<annotation><filename>a.jpg</filename></annotation>", "found <annotation>");
  expect_refused("<annotations/>", "has no <image> with a name");
  expect_refused("<annotations><image id=\"3\"/></annotations>", "1 picture(s) left out, having no name");
  expect_refused("<annotations><track id=\"0\" label=\"dog\"><box frame=\"0\"/></track></annotations>",
                 "export the task as \"CVAT for images 1.1\"");
}

TEST_F(Cvat, MarksOfOrderAndLineEndsOfWindowsDoNoHarm) {
  const std::string text = "<annotations>\r\n" + image("a.jpg", "\r\n" + box(kCorners) + "\r\n") + "\r\n</annotations>";
  std::string utf16 = "\xFF\xFE";
  for (const char c : text) utf16 += {c, '\0'};
  for (const std::string& bytes : {"\xEF\xBB\xBF" + text, utf16}) {
    write_file(dir_ / "annotations.xml", bytes);
    EXPECT_EQ(read(*open(), 0).objects.at(0).name, "dog");
  }
  EXPECT_THAT(problems_.lines(), IsEmpty());
}

}  // namespace
}  // namespace osprey::data
