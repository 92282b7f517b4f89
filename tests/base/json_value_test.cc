// SPDX-License-Identifier: Apache-2.0
#include "treadle/base/json.h"

#include <gmock/gmock.h>

namespace treadle {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Json, BracesMakeObjectsAndArrays) {
  const std::vector<std::string> words{"a", "b"};
  const Json json{{"text", "x"}, {"number", 1}, {"list", {1, 2.5, true, nullptr}}, {"words", words}};
  EXPECT_EQ(json.dump(), R"({"text":"x","number":1,"list":[1,2.5,true,null],"words":["a","b"]})");
}

TEST(Json, MembersKeepTheirOrderWhenTextIsReadAndWritten) {
  const std::string text = R"({"z":[{"b":1,"a":[]}],"a":-7,"big":18446744073709551615,"x":1.5})";
  EXPECT_EQ(Json::parse(text).dump(), text);
}

TEST(Json, MembersAndElementsAreChangedInPlace) {
  Json json;
  json["list"].push_back(1);
  json["list"].push_back({{"inner", 2}});
  json["list"][1]["inner"] = 3;
  json["gone"] = 4;
  json.erase("gone");
  json.update({{"more", 5}});
  EXPECT_EQ(json.dump(), R"({"list":[1,{"inner":3}],"more":5})");
}

TEST(Json, TextsMayBeNestedOnlySoDeep) {
  const std::string deep = std::string(512, '[') + std::string(512, ']');
  EXPECT_EQ(Json::parse(deep).dump(), deep);
  EXPECT_THAT([&] { Json::parse("[" + deep + "]"); }, ThrowsMessage<JsonError>(HasSubstr("nested more than 512 deep")));
  EXPECT_THROW(Json::parse(std::string(1000000, '[')), JsonError);
}

TEST(Json, CopiesAreIndependent) {
  Json first{{"x", {1, 2}}};
  Json second = first;
  second["x"].push_back(3);
  EXPECT_EQ(first["x"].size(), 2U);
  first = std::move(second);
  EXPECT_EQ(first["x"].size(), 3U);
}

TEST(Json, ElementsAndMembersAreWalkedInOrder) {
  const Json json = Json::parse(R"({"b": [1, 2, 3], "a": null})");
  int64_t sum = 0;
  for (const Json& item : json["b"]) sum += item.get<int64_t>();
  std::string names;
  for (const auto& [name, value] : json.items()) names += name + (value.is_null() ? "0" : "1");
  EXPECT_EQ(sum, 6);
  EXPECT_EQ(names, "b1a0");
  for (const Json& item : Json()) ADD_FAILURE() << item.dump();
}

TEST(Json, MembersHaveDefaults) {
  const Json json{{"x", 2}};
  EXPECT_EQ(json.value("x", 1), 2);
  EXPECT_EQ(json.value("y", 1), 1);
  EXPECT_EQ(json.value("y", "none"), "none");
}

TEST(Json, WhatDoesNotFitIsAnError) {
  const Json json = Json::parse(R"({"x": "text"})");
  EXPECT_THAT([&] { json.at("x").get<int>(); }, ThrowsMessage<JsonError>(HasSubstr("must be number, but is string")));
  EXPECT_THAT([&] { json["y"].dump(); }, ThrowsMessage<JsonError>(HasSubstr("'y' not found")));
  EXPECT_THAT([&] { json["x"][0].dump(); }, ThrowsMessage<JsonError>(HasSubstr("string")));
  EXPECT_THAT([&] { json.at("x").begin(); }, ThrowsMessage<JsonError>(HasSubstr("must be array, but is string")));
  EXPECT_THAT([&] { Json::parse("{\"x\": "); }, ThrowsMessage<JsonError>(HasSubstr("parse error")));
  EXPECT_FALSE(Json::parse("{", nullptr, /*allow_exceptions=*/false).is_object());
  EXPECT_THAT([&] { Json("\xff").dump(); }, ThrowsMessage<JsonError>(HasSubstr("UTF-8")));
}

}  // namespace
}  // namespace treadle
