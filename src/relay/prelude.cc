// SPDX-License-Identifier: Apache-2.0
// Data types and functions that programs with data structures start from.
#include "treadle/relay/text.h"

namespace treadle::relay {
namespace {

constexpr const char* kPrelude = R"(#[version = "0.0.5"]
type List[A] {
  Cons(A, List[A]),
  Nil,
}

type Option[A] {
  Some(A),
  None,
}

type Tree[A] {
  Rose(A, List[Tree[A]]),
}

def @id[A](%x: A) -> A {
  %x
}

def @compose[A, B, C](%f: fn (B) -> C, %g: fn (A) -> B) -> fn (A) -> C {
  fn (%x: A) -> C {
    %f(%g(%x))
  }
}

def @hd[A](%xs: List[A]) -> A {
  match? (%xs) {
    Cons(%x, _) => %x,
  }
}

def @tl[A](%xs: List[A]) -> List[A] {
  match? (%xs) {
    Cons(_, %rest) => %rest,
  }
}

def @nth[A](%xs: List[A], %n: int32) -> A {
  if (%n == 0) {
    @hd(%xs)
  } else {
    @nth(@tl(%xs), %n - 1)
  }
}

def @length[A](%xs: List[A]) -> int32 {
  match (%xs) {
    Cons(_, %rest) => 1 + @length(%rest),
    Nil => 0,
  }
}

def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) {
    Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)),
    Nil => Nil,
  }
}

def @foldl[A, B](%f: fn (A, B) -> A, %acc: A, %xs: List[B]) -> A {
  match (%xs) {
    Cons(%x, %rest) => @foldl(%f, %f(%acc, %x), %rest),
    Nil => %acc,
  }
}

def @foldr[A, B](%f: fn (A, B) -> B, %init: B, %xs: List[A]) -> B {
  match (%xs) {
    Cons(%x, %rest) => %f(%x, @foldr(%f, %init, %rest)),
    Nil => %init,
  }
}

def @filter[A](%f: fn (A) -> bool, %xs: List[A]) -> List[A] {
  match (%xs) {
    Cons(%x, %rest) => if (%f(%x)) {
      Cons(%x, @filter(%f, %rest))
    } else {
      @filter(%f, %rest)
    },
    Nil => Nil,
  }
}

def @concat[A](%xs: List[A], %ys: List[A]) -> List[A] {
  match (%xs) {
    Cons(%x, %rest) => Cons(%x, @concat(%rest, %ys)),
    Nil => %ys,
  }
}

def @update[A](%xs: List[A], %n: int32, %v: A) -> List[A] {
  if (%n == 0) {
    Cons(%v, @tl(%xs))
  } else {
    Cons(@hd(%xs), @update(@tl(%xs), %n - 1, %v))
  }
}

def @zip[A, B](%xs: List[A], %ys: List[B]) -> List[(A, B)] {
  match (%xs) {
    Cons(%x, %rest_x) => match (%ys) {
      Cons(%y, %rest_y) => Cons((%x, %y), @zip(%rest_x, %rest_y)),
      Nil => Nil,
    },
    Nil => Nil,
  }
}

def @map_accumr[A, B, C](%f: fn (A, B) -> (A, C), %init: A, %xs: List[B]) -> (A, List[C]) {
  @foldr(fn (%x: B, %acc: (A, List[C])) -> (A, List[C]) {
    let %next = %f(%acc.0, %x);
    (%next.0, Cons(%next.1, %acc.1))
  }, (%init, Nil), %xs)
}

def @map_accuml[A, B, C](%f: fn (A, B) -> (A, C), %init: A, %xs: List[B]) -> (A, List[C]) {
  match (%xs) {
    Cons(%x, %rest) => {
      let %next = %f(%init, %x);
      let %others = @map_accuml(%f, %next.0, %rest);
      (%others.0, Cons(%next.1, %others.1))
    },
    Nil => (%init, Nil),
  }
}

def @unfoldr[A, B](%f: fn (A) -> Option[(A, B)], %seed: A) -> List[B] {
  match (%f(%seed)) {
    Some(%next) => Cons(%next.1, @unfoldr(%f, %next.0)),
    None => Nil,
  }
}

def @unfoldl[A, B](%f: fn (A) -> Option[(A, B)], %seed: A) -> List[B] {
  @rev(@unfoldr(%f, %seed))
}

def @iterate[A](%f: fn (A) -> A, %n: int32) -> fn (A) -> A {
  if (%n == 0) {
    fn (%x: A) -> A { %x }
  } else {
    @compose(%f, @iterate(%f, %n - 1))
  }
}

def @rev[A](%xs: List[A]) -> List[A] {
  @foldl(fn (%acc: List[A], %x: A) -> List[A] { Cons(%x, %acc) }, Nil, %xs)
}

def @sum(%xs: List[int32]) -> int32 {
  @foldl(fn (%a: int32, %b: int32) -> int32 { %a + %b }, 0, %xs)
}

def @tmap[A, B](%f: fn (A) -> B, %t: Tree[A]) -> Tree[B] {
  match (%t) {
    Rose(%x, %rest) => Rose(%f(%x), @map(fn (%u: Tree[A]) -> Tree[B] { @tmap(%f, %u) }, %rest)),
  }
}

def @size[A](%t: Tree[A]) -> int32 {
  match (%t) {
    Rose(_, %rest) => 1 + @sum(@map(fn (%u: Tree[A]) -> int32 { @size(%u) }, %rest)),
  }
}
)";

}  // namespace

IRModule Prelude() { return ParseModule(kPrelude, "prelude"); }

}  // namespace treadle::relay
