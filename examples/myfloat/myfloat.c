// SPDX-License-Identifier: Apache-2.0
// The library of an element type of one's own, as treadle.target.datatype calls it: "myfloat" of 32 bits is a float of
// IEEE 754 behind an integer, so that what is computed with it can be compared with float32 bit by bit. Values are
// passed as the unsigned integers that they are stored as. A real type (posits, logarithmic numbers) has other bodies.
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

static float value_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

uint32_t FloatToCustom32(float x) { return bits_of(x); }
float Custom32ToFloat(uint32_t x) { return value_of(x); }
uint32_t IntToCustom32(int32_t x) { return bits_of((float)x); }
uint32_t MinCustom32(void) { return bits_of(-FLT_MAX); }  // the least finite value

uint32_t Custom32Add(uint32_t a, uint32_t b) { return bits_of(value_of(a) + value_of(b)); }
uint32_t Custom32Sub(uint32_t a, uint32_t b) { return bits_of(value_of(a) - value_of(b)); }
uint32_t Custom32Mul(uint32_t a, uint32_t b) { return bits_of(value_of(a) * value_of(b)); }
uint32_t Custom32Div(uint32_t a, uint32_t b) { return bits_of(value_of(a) / value_of(b)); }
uint32_t Custom32Max(uint32_t a, uint32_t b) { return value_of(a) > value_of(b) ? a : b; }
uint32_t Custom32Sqrt(uint32_t a) { return bits_of(sqrtf(value_of(a))); }
uint32_t Custom32Exp(uint32_t a) { return bits_of(expf(value_of(a))); }
uint32_t Custom32Log(uint32_t a) { return bits_of(logf(value_of(a))); }
uint32_t Custom32Sigmoid(uint32_t a) { return bits_of(1.0f / (1.0f + expf(-value_of(a)))); }
uint32_t Custom32Tanh(uint32_t a) { return bits_of(tanhf(value_of(a))); }
