// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/kernels/byte_lists.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <tuple>

#include "targets/cpu/kernels/weight_forms.h"
#include "treadle/base/int_math.h"

namespace treadle::ops::cpu {
namespace {

constexpr int kLanes = kListBlock, kBytes = 4;
/// 16-bit sums of positive weights and of negative ones.
constexpr size_t kSums = static_cast<size_t>(kLanes) * kBytes;
/// Sums of positive weights, and of negative ones, whose products with 0 .. 255 fit 16 bits.
constexpr int kFits = 128;
/// Words of a part of a row, of which a list has all entries before those of the next: what a tile of rows has of it
/// stays in the L1 cache.
constexpr int64_t kPart = 512;
/// What an entry of one word takes, of one of two (measured on Zen 3).
constexpr double kSingle = 0.62;

/// The weights of a block that meet one word of the data.
using Quad = std::array<int8_t, kLanes * kBytes>;
/// Of each 16-bit sum the positive weights and the negative ones.
using Load = std::array<uint8_t, kSums>;

/// The weights in the order of a form of words that have it.
Quad InForm(const Quad& quad, int64_t form) {
  Quad result;
  for (int64_t i = 0; i < kBytes; ++i) {
    const bool turned = form % 2 != 0 && i % 2 != 0;
    auto at = static_cast<size_t>(ByteOfForm(form, i)), to = static_cast<size_t>(i);
    for (; to < quad.size(); at += kBytes, to += kBytes) {
      result[to] = static_cast<int8_t>(turned ? -quad[at] : quad[at]);
    }
  }
  return result;
}

using Words = std::array<uint32_t, kLanes>;

/// Of words of four bytes, 16 bits each: the first of each pair of neighbours, and the second.
struct Pairs {
  Words first, second;
};

/// The pairs of forms `form` and `form` + 1.
Pairs PairsOf(const Words& words, int64_t form) {
  constexpr uint32_t kEven = 0x00ff00ffU, kLow = 0xffffU;
  Pairs pairs;
  Words &first = pairs.first, &second = pairs.second;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    first[lane] = words[lane] & kEven;
    second[lane] = words[lane] >> 8 & kEven;
  }
  if (form / 2 == 1) {  // 0 2, 1 3
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const uint32_t even = first[lane], odd = second[lane];
      first[lane] = (even & kLow) | odd << 16;
      second[lane] = even >> 16 | (odd & ~kLow);
    }
  } else if (form / 2 == 2) {  // 1 2, 3 0
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const uint32_t even = first[lane];
      first[lane] = second[lane];
      second[lane] = even << 16 | even >> 16;
    }
  }
  return pairs;
}

/// Sets `load`; the heaviest sum, 255 where one exceeds 128 or a negated weight would be 128.
int LoadOf(const Pairs& positive, const Pairs& negative, bool turned, Load* load) {
  static_assert(kFits == 128, "what exceeds 128 has bit 8 set after 127 is added");
  const Pairs &second_positive = turned ? negative : positive, &second_negative = turned ? positive : negative;
  std::array<uint32_t, kLanes> sums;
  uint32_t exceeds = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    const uint32_t more = positive.first[lane] + second_positive.second[lane];
    const uint32_t less = negative.first[lane] + second_negative.second[lane];
    exceeds |= ((more + 0x007f007fU) | (less + 0x007f007fU)) & 0x01000100U;
    exceeds |= turned ? second_positive.second[lane] & 0x00800080U : 0;
    sums[lane] = more | less << 8;
  }
  if (exceeds != 0) return 255;
  std::memcpy(load->data(), sums.data(), sizeof sums);
  uint8_t most = 0;
  for (uint8_t sum : *load) most = std::max(most, sum);
  return most;
}

/// A word of the data and its weights, in each form.
struct Item {
  int64_t word;
  int order = 0;     ///< among those of the word
  int least = 255;   ///< of the heaviest sums, the lightest form's
  size_t forms = 0;  ///< that fit
  Quad quad;
  std::array<int64_t, kMostForms> fits{};
  std::array<Load, kMostForms> loads;

  Item(int64_t of, const Quad& weights, int64_t allowed_forms) : word(of), quad(weights) {
    std::array<uint8_t, kLanes * kBytes> above, below;
    for (size_t i = 0; i < quad.size(); ++i) {
      above[i] = static_cast<uint8_t>(quad[i] > 0 ? quad[i] : 0);
      below[i] = static_cast<uint8_t>(quad[i] < 0 ? -quad[i] : 0);
    }
    const auto positive = std::bit_cast<Words>(above), negative = std::bit_cast<Words>(below);
    for (int64_t form = 0; form < allowed_forms; form += 2) {
      const Pairs more = PairsOf(positive, form), less = PairsOf(negative, form);
      for (int64_t turned = 0; turned < 2 && form + turned < allowed_forms; ++turned) {
        const int most = LoadOf(more, less, turned != 0, &loads[forms]);
        if (most > kFits) continue;
        fits[forms++] = form + turned;
        least = std::min(least, most);
      }
    }
  }
  bool fits_any() const { return forms != 0; }
};

/// A word of an entry: an item, in a form.
struct Slot {
  const Item* item = nullptr;
  int64_t form = 0;
};
using Entry = std::array<Slot, 2>;

/// The items of a block: its quads, those that fit in no form in two halves.
std::vector<Item> ItemsOf(const std::vector<Quad>& quads, int64_t forms) {
  std::vector<Item> items;
  items.reserve(quads.size());
  for (size_t q = 0; q < quads.size(); ++q) {
    const auto word = static_cast<int64_t>(q);
    if (std::all_of(quads[q].begin(), quads[q].end(), [](int8_t w) { return w == 0; })) continue;
    const Item whole(word, quads[q], forms);
    if (whole.fits_any()) {
      items.push_back(whole);
      continue;
    }
    Quad half = quads[q], rest = quads[q];
    for (size_t i = 0; i < half.size(); ++i) {
      half[i] = static_cast<int8_t>(quads[q][i] / 2);
      rest[i] = static_cast<int8_t>(quads[q][i] - half[i]);
    }
    items.emplace_back(word, half, forms);
    items.emplace_back(word, rest, forms);
    items.back().order = 1;
  }
  return items;
}

bool HasTwoWords(const Entry& entry) { return entry[1].item != nullptr; }

/// What an item's sums leave to those of others, in each form that fits.
std::array<Load, kMostForms> RoomsOf(const Item& item) {
  std::array<Load, kMostForms> rooms;
  for (size_t i = 0; i < item.forms; ++i) {
    for (size_t sum = 0; sum < kSums; ++sum) rooms[i][sum] = static_cast<uint8_t>(kFits - item.loads[i][sum]);
  }
  return rooms;
}

/// Whether no sum exceeds the room for it.
bool Fits(const Load& load, const Load& room) {
  constexpr size_t kVector = kSums / 2;
  std::array<uint8_t, kVector> exceeds;
  for (size_t i = 0; i < kVector; ++i) {
    const auto over = [&](size_t sum) { return load[sum] > room[sum] ? load[sum] - room[sum] : 0; };
    exceeds[i] = static_cast<uint8_t>(over(i) | over(i + kVector));
  }
  const auto words = std::bit_cast<std::array<uint64_t, kVector / 8>>(exceeds);
  return (words[0] | words[1]) == 0;
}

/// The forms in which two items fit the same sums; false where there are none.
bool Join(const Item& a, const std::array<Load, kMostForms>& rooms, const Item& b, Entry* entry) {
  for (size_t of_a = 0; of_a < a.forms; ++of_a) {
    for (size_t of_b = 0; of_b < b.forms; ++of_b) {
      if (!Fits(b.loads[of_b], rooms[of_a])) continue;
      *entry = {Slot{&a, a.fits[of_a]}, Slot{&b, b.fits[of_b]}};
      return true;
    }
  }
  return false;
}

/// Entries of two items where two fit: of each its heaviest partner, which leaves the light ones to others. Those of
/// two come first.
std::vector<Entry> EntriesOf(const std::vector<Item>& items) {
  constexpr size_t kMostTried = 2048;
  std::vector<const Item*> left;
  for (const Item& item : items) left.push_back(&item);
  // The heaviest of a part first, which fit the fewest others.
  std::sort(left.begin(), left.end(), [](const Item* a, const Item* b) {
    return std::tuple(a->word / kPart, -a->least, a->word, a->order) <
           std::tuple(b->word / kPart, -b->least, b->word, b->order);
  });
  std::vector<Entry> entries, singles;
  for (size_t i = 0; i < left.size(); ++i) {
    const Item& item = *left[i];
    Entry entry{Slot{&item, item.fits[0]}, Slot{}};
    const std::array<Load, kMostForms> rooms = RoomsOf(item);
    const size_t end = std::min(left.size(), i + 1 + kMostTried);
    for (size_t j = i + 1; j < end && left[j]->word / kPart == item.word / kPart; ++j) {
      if (!Join(item, rooms, *left[j], &entry)) continue;
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(j));
      break;
    }
    (HasTwoWords(entry) ? entries : singles).push_back(entry);
  }
  entries.insert(entries.end(), singles.begin(), singles.end());
  return entries;
}

/// The list of a block, before all get one length.
struct Block {
  std::vector<Quad> weights;  ///< two of each entry
  std::vector<int32_t> words;
  std::array<int32_t, kLanes> correction{};
  int64_t pairs = 0;  ///< entries of two words
  int64_t forms = 1;

  Block(const std::vector<Quad>& quads, int64_t allowed_forms);
  size_t entries() const { return words.size() / 2; }
};

Block::Block(const std::vector<Quad>& quads, int64_t allowed_forms) {
  const std::vector<Item> items = ItemsOf(quads, allowed_forms);
  const std::vector<Entry> entries = EntriesOf(items);
  weights.reserve(entries.size() * 2);
  words.reserve(entries.size() * 2);
  pairs = std::count_if(entries.begin(), entries.end(), HasTwoWords);
  for (const Entry& entry : entries) {
    for (const auto& [item, form] : entry) {
      weights.push_back(item == nullptr ? Quad{} : InForm(item->quad, form));
      words.push_back(item == nullptr ? 0
                                      : static_cast<int32_t>(item->word + form * static_cast<int64_t>(quads.size())));
      forms = std::max(forms, form == 0 ? 1 : form / 2 * 2 + 2);
      if (form % 2 == 0) continue;
      for (size_t i = 1; i < weights.back().size(); i += 2) correction[i / kBytes] -= 255 * weights.back()[i];
    }
  }
}

}  // namespace

bool ByteLists::Pay() const {
  // Of its five instructions for the eight of two quads of products of int16, and loads that those share, an entry
  // takes as long as so many quads (measured on Zen 3).
  constexpr double kEntry = 1.5, kLeastGain = 0.94;
  return mean_entries * kEntry <= kLeastGain * static_cast<double>(quads);
}

int64_t ByteOfForm(int64_t form, int64_t byte) {
  switch (form / 2) {
    case 0:
      return byte;
    case 1:
      return byte / 2 + byte % 2 * 2;
    default:
      return (byte + 1) % kBytes;
  }
}

int64_t FormsOfRow(int64_t quads) {
  constexpr int64_t kRows = 10, kCache = 24 << 10;
  const int64_t most = kCache / (kRows * kBytes * std::max<int64_t>(1, quads)) / 2 * 2;
  return std::clamp<int64_t>(most, 2, kMostForms);
}

ByteLists MakeByteLists(int64_t results, int64_t quads, const std::function<const int8_t*(int64_t, int64_t)>& at,
                        int64_t forms) {
  constexpr size_t kStep = 16;  // so that lists of equal matrices are mostly equally long, and share a kernel
  const int64_t count = CeilDiv(results, kListBlock);
  std::vector<Block> blocks;
  blocks.reserve(static_cast<size_t>(count));
  std::vector<Quad> all(static_cast<size_t>(quads));
  size_t entries = kStep;
  for (int64_t b = 0; b < count; ++b) {
    for (int64_t lane = 0; lane < kListBlock; ++lane) {
      const int64_t result = b * kListBlock + lane;
      for (int64_t q = 0; q < quads; ++q) {
        int8_t* to = all[static_cast<size_t>(q)].data() + lane * kBytes;
        if (result < results) {
          std::memcpy(to, at(result, q), kBytes);
        } else {
          std::memset(to, 0, kBytes);
        }
      }
    }
    blocks.emplace_back(all, forms);
    entries = std::max(entries, RoundUp(blocks.back().entries(), kStep));
  }
  const DataType word = DataType::Int(32);
  ByteLists lists;
  const auto length = static_cast<int64_t>(entries);
  lists.quads = quads;
  lists.weight = runtime::NDArray::Empty({count, length, 2, kListBlock}, word);
  lists.words = runtime::NDArray::Empty({count, length + 1, 2}, word);
  lists.correction = runtime::NDArray::Empty({count * kListBlock}, word);
  auto* weight = lists.weight.Data<int8_t>();
  auto* words = lists.words.Data<int32_t>();
  auto* correction = lists.correction.Data<int32_t>();
  std::fill_n(weight, lists.weight.size() * kBytes, int8_t{0});
  std::fill_n(words, lists.words.size(), 0);
  for (const Block& block : blocks) {
    for (size_t i = 0; i < block.weights.size(); ++i) {
      std::copy(block.weights[i].begin(), block.weights[i].end(), weight + i * sizeof(Quad));
    }
    weight += entries * 2 * sizeof(Quad);
    std::copy(block.words.begin(), block.words.end(), words);
    words += entries * 2;
    const auto used = static_cast<int64_t>(block.entries());
    *words++ = static_cast<int32_t>(used);
    *words++ = static_cast<int32_t>(block.pairs);
    correction = std::copy(block.correction.begin(), block.correction.end(), correction);
    lists.forms = std::max(lists.forms, block.forms);
    const double singles = static_cast<double>(used - block.pairs) / static_cast<double>(count);
    lists.mean_singles += singles;
    lists.mean_entries += static_cast<double>(block.pairs) / static_cast<double>(count) + kSingle * singles;
  }
  return lists;
}

std::shared_ptr<const ByteLists> ListsOfMatrix(const runtime::NDArray& weight, bool k_first) {
  if (weight.get() == nullptr || weight.dtype() != DataType::Int(8) || weight.shape().size() != 2 ||
      !weight.IsCompact()) {
    return nullptr;
  }
  const std::vector<int64_t>& shape = weight.shape();
  const int64_t n = shape[k_first ? 1 : 0], k = shape[k_first ? 0 : 1], quads = CeilDiv(k, kBytes);
  if (n < kListBlock || k < kBytes) return nullptr;
  return WeightForms::Keep<ByteLists>(
      weight, StrCat("byte lists ", k_first), [&]() -> std::shared_ptr<const ByteLists> {
        std::vector<int8_t> rows(static_cast<size_t>(n * quads * kBytes), int8_t{0});
        const auto* from = weight.Data<int8_t>();
        constexpr int64_t kStep = 64;  // results of a cache line, where k is first
        for (int64_t first = 0; first < n; first += kStep) {
          for (int64_t j = 0; j < k; ++j) {
            for (int64_t i = first; i < std::min(n, first + kStep); ++i) {
              rows[static_cast<size_t>(i * quads * kBytes + j)] = from[k_first ? j * n + i : i * k + j];
            }
          }
        }
        ByteLists lists = MakeByteLists(
            n, quads, [&](int64_t r, int64_t q) { return rows.data() + (r * quads + q) * kBytes; }, FormsOfRow(quads));
        return lists.Pay() ? std::make_shared<const ByteLists>(std::move(lists)) : nullptr;
      });
}

bool HasByteLists(const TargetFeatures& machine) {
  constexpr int kAvx2 = 256;
  return machine.arch == "x86_64" && machine.vector_bits == kAvx2 && machine.fma && !machine.vnni;
}

}  // namespace treadle::ops::cpu
