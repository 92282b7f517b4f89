/* SPDX-License-Identifier: Apache-2.0
 * AMX on processors that lack it: a handler of SIGILL that decodes its instructions and does what Intel's manual says
 * they do ("Intel 64 and IA-32 Architectures Software Developer's Manual", volume 2, TILELOADD and others; the encoding
 * is VEX with three bytes, map 0F38). Memory, registers and the tile state are those of the thread that it interrupts.
 * emulator_install() and emulator_remove(); emulator_count() is how many instructions were done since. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#define TILES 8
#define ROWS 16
#define ROW_BYTES 64

typedef struct {
  uint8_t data[TILES][ROWS][ROW_BYTES];
  uint8_t rows[TILES];
  uint16_t columns[TILES]; /* bytes of a row */
} Tiles;

static __thread Tiles tiles;
static struct sigaction before;
static atomic_long count;

/* An instruction's fields, and the bytes that it takes. */
typedef struct {
  int prefix, opcode, reg, rm, vvvv, is_register, length;
  uint8_t* address; /* of memory, without the index of a tile's rows */
  int64_t stride;
} Instruction;

static int64_t Register(const ucontext_t* context, int number) {
  static const int places[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                 REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return context->uc_mcontext.gregs[places[number]];
}

static int32_t Displacement(const uint8_t* code) {
  int32_t value;
  memcpy(&value, code, sizeof value);
  return value;
}

/* 0 where it isn't VEX of three bytes in map 0F38. */
static int Decode(const ucontext_t* context, Instruction* found) {
  const uint8_t* code = (const uint8_t*)context->uc_mcontext.gregs[REG_RIP];
  if (code[0] != 0xc4 || (code[1] & 0x1f) != 2) return 0;
  const int reg_high = (~code[1] >> 4) & 8, index_high = (~code[1] >> 3) & 8, base_high = (~code[1] >> 2) & 8;
  const int mod = code[4] >> 6, rm = code[4] & 7;
  int at = 5;
  found->prefix = code[2] & 3;
  found->vvvv = (~code[2] >> 3) & 15;
  found->opcode = code[3];
  found->reg = ((code[4] >> 3) & 7) | reg_high;
  found->rm = rm | base_high;
  found->is_register = mod == 3;
  found->stride = 0;
  if (mod != 3) {
    int base = found->rm, has_base = 1;
    if (rm == 4) {
      const int sib = code[at++], index = ((sib >> 3) & 7) | index_high;
      base = (sib & 7) | base_high;
      if (index != 4) found->stride = Register(context, index) << (sib >> 6);
    }
    has_base = !(mod == 0 && (base & 7) == 5);
    int64_t address = has_base ? Register(context, base) : 0;
    if (mod == 1) address += (int8_t)code[at++];
    if (mod == 2 || !has_base) {
      address += Displacement(code + at);
      at += 4;
    }
    if (!has_base && rm == 5) address += (int64_t)(code + at); /* relative to the next instruction */
    found->address = (uint8_t*)address;
  }
  found->length = at;
  return 1;
}

static void Configure(const uint8_t* config) {
  memset(&tiles, 0, sizeof tiles);
  if (config[0] == 0) return;
  for (int i = 0; i < TILES; ++i) {
    memcpy(&tiles.columns[i], config + 16 + 2 * i, 2);
    tiles.rows[i] = config[48 + i];
  }
}

static void DotBytes(const Instruction* in, int a_signed, int b_signed) {
  const int to = in->reg, a = in->rm, b = in->vvvv;
  for (int m = 0; m < tiles.rows[to]; ++m) {
    int32_t* sums = (int32_t*)(void*)tiles.data[to][m];
    for (int k = 0; k < tiles.columns[a] / 4; ++k) {
      for (int n = 0; n < tiles.columns[to] / 4; ++n) {
        uint32_t sum = (uint32_t)sums[n];
        for (int i = 0; i < 4; ++i) {
          const uint8_t x = tiles.data[a][m][4 * k + i], y = tiles.data[b][k][4 * n + i];
          sum += (uint32_t)((a_signed ? (int8_t)x : x) * (b_signed ? (int8_t)y : y));
        }
        sums[n] = (int32_t)sum;
      }
    }
  }
}

static float Half(const uint8_t* bytes) {
  uint16_t low;
  memcpy(&low, bytes, sizeof low);
  const uint32_t bits = (uint32_t)low << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void DotHalves(const Instruction* in) {
  const int to = in->reg, a = in->rm, b = in->vvvv;
  for (int m = 0; m < tiles.rows[to]; ++m) {
    float* sums = (float*)(void*)tiles.data[to][m];
    for (int k = 0; k < tiles.columns[a] / 4; ++k) {
      for (int n = 0; n < tiles.columns[to] / 4; ++n) {
        sums[n] += Half(&tiles.data[a][m][4 * k]) * Half(&tiles.data[b][k][4 * n]);
        sums[n] += Half(&tiles.data[a][m][4 * k + 2]) * Half(&tiles.data[b][k][4 * n + 2]);
      }
    }
  }
}

/* 0 where it is no instruction of AMX's. Prefixes: 0 none, 1 66, 2 F3, 3 F2. */
static int Execute(const Instruction* in) {
  const int used = in->reg < TILES && in->rm < TILES && in->vvvv < TILES;
  if (in->opcode == 0x49) {
    if (in->prefix == 0) return Configure(in->is_register ? (const uint8_t[64]){0} : in->address), 1;
    if (in->prefix != 3 || !in->is_register || in->reg >= TILES) return 0;
    return memset(tiles.data[in->reg], 0, sizeof tiles.data[0]), 1;
  }
  if (in->opcode == 0x4b && !in->is_register && in->reg < TILES) {
    const int load = in->prefix != 2;
    if (load) memset(tiles.data[in->reg], 0, sizeof tiles.data[0]);
    for (int row = 0; row < tiles.rows[in->reg]; ++row) {
      uint8_t *memory = in->address + row * in->stride, *tile = tiles.data[in->reg][row];
      memcpy(load ? tile : memory, load ? memory : tile, tiles.columns[in->reg]);
    }
    return 1;
  }
  if (in->opcode == 0x5e && in->is_register && used) {
    return DotBytes(in, in->prefix >= 2, in->prefix == 1 || in->prefix == 3), 1;
  }
  if (in->opcode == 0x5c && in->prefix == 2 && in->is_register && used) return DotHalves(in), 1;
  return 0;
}

static void OnIllegal(int signal, siginfo_t* info, void* data) {
  ucontext_t* context = data;
  Instruction instruction;
  if (Decode(context, &instruction) && Execute(&instruction)) {
    context->uc_mcontext.gregs[REG_RIP] += instruction.length;
    atomic_fetch_add(&count, 1);
    return;
  }
  (void)info;
  sigaction(signal, &before, NULL); /* happens again, for whom it may concern */
}

int emulator_install(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = OnIllegal;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  atomic_store(&count, 0);
  return sigaction(SIGILL, &action, &before);
}

int emulator_remove(void) { return sigaction(SIGILL, &before, NULL); }

long emulator_count(void) { return atomic_load(&count); }
