// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/kernels/byte_lists.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>

#include "targets/cpu/kernels/weight_forms.h"

namespace treadle::ops::cpu {
namespace {

constexpr int kLanes = kListBlock, kBytes = 4, kPairs = kLanes * 2;
/// Sums of positive weights, and of negative ones, whose products with 0 .. 255 fit 16 bits.
constexpr int kFits = 128;
/// Words of a part of a row, of which a list has all entries before those of the next: what a tile of rows has of it
/// stays in the L1 cache.
constexpr int64_t kPart = 512;
/// What an entry of one word takes, of one of two (measured on Zen 3).
constexpr double kSingle = 0.62;

/// The weights of a block that meet one word of the data.
using Quad = std::array<int8_t, kLanes * kBytes>;
/// Of each 16-bit sum the positive weights, then the negative ones, eight sums at a time.
using Load = std::array<uint64_t, kPairs * 2 / 8>;

/// The weights in the order of a form of words. False where one has no negative.
bool InForm(const Quad& quad, int64_t form, Quad* result) {
  bool possible = true;
  for (int64_t i = 0; i < kBytes; ++i) {
    const bool turned = form % 2 != 0 && i % 2 != 0;
    auto at = static_cast<size_t>(ByteOfForm(form, i)), to = static_cast<size_t>(i);
    for (; to < quad.size(); at += kBytes, to += kBytes) {
      possible = possible && !(turned && quad[at] == -128);  // 128 isn't int8
      (*result)[to] = static_cast<int8_t>(turned ? -quad[at] : quad[at]);
    }
  }
  return possible;
}

/// Sets `load`; the heaviest sum.
int LoadOf(const Quad& quad, Load* load) {
  std::array<uint8_t, kPairs * 2> sums{};
  int most = 0;
  for (size_t pair = 0; pair < kPairs; ++pair) {
    const int even = quad[pair * 2], odd = quad[pair * 2 + 1];
    const int positive = std::max(even, 0) + std::max(odd, 0), negative = std::max(-even, 0) + std::max(-odd, 0);
    sums[pair] = static_cast<uint8_t>(std::min(positive, 255));
    sums[kPairs + pair] = static_cast<uint8_t>(std::min(negative, 255));
    most = std::max({most, positive, negative});
  }
  std::memcpy(load->data(), sums.data(), sums.size());
  return most;
}

/// Whether all sums are at most 128 together. None exceeds that alone.
bool FitTogether(const Load& a, const Load& b) {
  static_assert(kFits == 128, "half of a sum, rounded up, plus 63 is less than 128");
  constexpr uint64_t kEach = 0x0101010101010101U;
  for (size_t i = 0; i < a.size(); ++i) {
    const uint64_t half = (a[i] | b[i]) - (((a[i] ^ b[i]) >> 1) & (kEach * 127));
    if (((half + kEach * 63) & (kEach * 128)) != 0) return false;
  }
  return true;
}

/// A word of the data and its weights, in each form.
struct Item {
  int64_t word;
  int order = 0;  ///< among those of the word
  Quad quad;
  std::array<Load, kMostForms> loads{};
  std::array<bool, kMostForms> fits{};
  int least = 255;  ///< of the heaviest sums, the lightest form's

  Item(int64_t of, const Quad& weights, int64_t forms) : word(of), quad(weights) {
    for (int64_t form = 0; form < forms; ++form) {
      const auto f = static_cast<size_t>(form);
      Quad turned{};
      const bool possible = InForm(quad, form, &turned);
      const int most = LoadOf(turned, &loads[f]);
      fits[f] = possible && most <= kFits;
      if (fits[f]) least = std::min(least, most);
    }
  }
  bool fits_any() const { return least <= kFits; }
  int64_t first_fit() const { return std::find(fits.begin(), fits.end(), true) - fits.begin(); }
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

/// The forms in which two items fit the same sums; false where there are none.
bool Join(const Item& a, const Item& b, Entry* entry) {
  for (size_t of_a = 0; of_a < a.fits.size(); ++of_a) {
    for (size_t of_b = 0; a.fits[of_a] && of_b < b.fits.size(); ++of_b) {
      if (!b.fits[of_b] || !FitTogether(a.loads[of_a], b.loads[of_b])) continue;
      *entry = {Slot{&a, static_cast<int64_t>(of_a)}, Slot{&b, static_cast<int64_t>(of_b)}};
      return true;
    }
  }
  return false;
}

bool HasTwoWords(const Entry& entry) { return entry[1].item != nullptr; }

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
    Entry entry{Slot{&item, item.first_fit()}, Slot{}};
    const size_t end = std::min(left.size(), i + 1 + kMostTried);
    for (size_t j = i + 1; j < end && left[j]->word / kPart == item.word / kPart; ++j) {
      if (!Join(item, *left[j], &entry)) continue;
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(j));
      break;
    }
    (HasTwoWords(entry) ? entries : singles).push_back(entry);
  }
  entries.insert(entries.end(), singles.begin(), singles.end());
  return entries;
}

/// The lists of all blocks, before they get one length.
struct Block {
  std::vector<Item> items;  ///< that entries point at
  std::vector<Entry> entries;
};

/// Writes an entry's words, and what complements ask to be added to results.
void Write(const Slot& slot, int64_t quads, int32_t* word, int8_t* weights, int32_t* correction) {
  *word = 0;
  if (slot.item == nullptr) return;
  *word = static_cast<int32_t>(slot.item->word + slot.form * quads);
  Quad turned{};
  InForm(slot.item->quad, slot.form, &turned);
  std::copy(turned.begin(), turned.end(), weights);
  for (size_t i = 1; slot.form % 2 != 0 && i < turned.size(); i += 2) correction[i / kBytes] -= 255 * turned[i];
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
  const int64_t count = (results + kListBlock - 1) / kListBlock;
  std::vector<Block> blocks(static_cast<size_t>(count));
  size_t entries = kStep;
  for (int64_t b = 0; b < count; ++b) {
    std::vector<Quad> all(static_cast<size_t>(quads), Quad{});
    for (int64_t q = 0; q < quads; ++q) {
      for (int64_t lane = 0; lane < kListBlock && b * kListBlock + lane < results; ++lane) {
        std::memcpy(all[static_cast<size_t>(q)].data() + lane * kBytes, at(b * kListBlock + lane, q), kBytes);
      }
    }
    Block& block = blocks[static_cast<size_t>(b)];
    block.items = ItemsOf(all, forms);
    block.entries = EntriesOf(block.items);
    entries = std::max(entries, (block.entries.size() + kStep - 1) / kStep * kStep);
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
  std::fill_n(correction, lists.correction.size(), 0);
  for (const Block& block : blocks) {
    for (size_t e = 0; e < block.entries.size(); ++e) {
      for (size_t i = 0; i < 2; ++i) {
        const Slot& slot = block.entries[e][i];
        Write(slot, quads, words + e * 2 + i, weight + (e * 2 + i) * kLanes * kBytes, correction);
        if (slot.item != nullptr) lists.forms = std::max(lists.forms, slot.form == 0 ? 1 : slot.form / 2 * 2 + 2);
      }
    }
    weight += entries * 2 * kLanes * kBytes;
    words += entries * 2;
    const auto pairs = std::count_if(block.entries.begin(), block.entries.end(), HasTwoWords);
    const auto all = static_cast<int64_t>(block.entries.size());
    *words++ = static_cast<int32_t>(all);
    *words++ = static_cast<int32_t>(pairs);
    const double singles = static_cast<double>(all - pairs) / static_cast<double>(count);
    lists.mean_singles += singles;
    lists.mean_entries += static_cast<double>(pairs) / static_cast<double>(count) + kSingle * singles;
    correction += kListBlock;
  }
  return lists;
}

std::shared_ptr<const ByteLists> ListsOfMatrix(const runtime::NDArray& weight, bool k_first) {
  if (weight.get() == nullptr || weight.dtype() != DataType::Int(8) || weight.shape().size() != 2 ||
      !weight.IsCompact()) {
    return nullptr;
  }
  const std::vector<int64_t>& shape = weight.shape();
  const int64_t n = shape[k_first ? 1 : 0], k = shape[k_first ? 0 : 1], quads = (k + kBytes - 1) / kBytes;
  if (n < kListBlock || k < kBytes) return nullptr;
  return WeightForms::Keep<ByteLists>(
      weight, StrCat("byte lists ", k_first), [&]() -> std::shared_ptr<const ByteLists> {
        std::vector<int8_t> rows(static_cast<size_t>(n * quads * kBytes), int8_t{0});
        const auto* from = weight.Data<int8_t>();
        for (int64_t i = 0; i < n; ++i) {
          int8_t* to = rows.data() + i * quads * kBytes;
          for (int64_t j = 0; j < k; ++j) to[j] = from[k_first ? j * n + i : i * k + j];
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
