#pragma once
#include "kernels/arithmetic/inline.h"

/// The transforms of one dimension. A tile of m results is found as follows from the n = m + 2 numbers d that it sees
/// and the three taps g: interpolation at n - 1 points and infinity makes of them n products, y = A^T [(G g) * (B^T
/// d)]. Turned around, they make the gradient of the taps: G^T [(A e) * (B^T d)] of the gradient e of the results.
///
/// source  Winograd, "Arithmetic Complexity of Computations", SIAM 1980, chapter 3
namespace osprey::kernels::cpu {

/// F(2, 3) with the points 0, 1, -1.
struct TwoResults {
  static constexpr int kResults = 2, kSides = 4;

  template <class V>
  static OSPREY_INLINE void seen(const V* d, V* to) {
    to[0] = d[0] - d[2];
    to[1] = d[1] + d[2];
    to[2] = d[2] - d[1];
    to[3] = d[1] - d[3];
  }
  template <class V>
  static OSPREY_INLINE void taps(const V* g, V* to) {
    const V ends = 0.5f * (g[0] + g[2]), middle = 0.5f * g[1];
    to[0] = g[0];
    to[1] = ends + middle;
    to[2] = ends - middle;
    to[3] = g[2];
  }
  template <class V>
  static OSPREY_INLINE void results(const V* m, V* to) {
    to[0] = m[0] + m[1] + m[2];
    to[1] = m[1] - m[2] - m[3];
  }
  template <class V>
  static OSPREY_INLINE void wanted(const V* e, V* to) {
    to[0] = e[0];
    to[1] = e[0] + e[1];
    to[2] = e[0] - e[1];
    to[3] = -e[1];
  }
  template <class V>
  static OSPREY_INLINE void sums(const V* u, V* to) {
    const V both = 0.5f * (u[1] + u[2]);
    to[0] = u[0] + both;
    to[1] = 0.5f * (u[1] - u[2]);
    to[2] = both + u[3];
  }
};

/// F(3, 3) with the points p, -p, q, -q: of all for it, those near 0.38 and 1.28 enlarge errors least.
struct ThreeResults {
  static constexpr int kResults = 3, kSides = 5;
  static constexpr float kP = 0.375f, kQ = 1.25f, kP2 = kP * kP, kQ2 = kQ * kQ, kBoth = kP2 * kQ2, kSum = kP2 + kQ2;
  /// 1 / the product of the distances of a point from the others; that of -a is the same but for its sign, which
  /// `seen` has.
  static constexpr float kOfP = 1 / (2 * kP * (kP2 - kQ2)), kOfQ = 1 / (2 * kQ * (kQ2 - kP2));

  template <class V>
  static OSPREY_INLINE void seen(const V* d, V* to) {
    const V odd_p = d[3] - kQ2 * d[1], even_p = kP * (d[2] - kQ2 * d[0]), odd_q = d[3] - kP2 * d[1],
            even_q = kQ * (d[2] - kP2 * d[0]);
    to[0] = even_p + odd_p;
    to[1] = even_p - odd_p;
    to[2] = even_q + odd_q;
    to[3] = even_q - odd_q;
    to[4] = kBoth * d[0] - kSum * d[2] + d[4];
  }
  template <class V>
  static OSPREY_INLINE void taps(const V* g, V* to) {
    const V even_p = kOfP * g[0] + kOfP * kP2 * g[2], odd_p = kOfP * kP * g[1],
            even_q = kOfQ * g[0] + kOfQ * kQ2 * g[2], odd_q = kOfQ * kQ * g[1];
    to[0] = even_p + odd_p;
    to[1] = even_p - odd_p;
    to[2] = even_q + odd_q;
    to[3] = even_q - odd_q;
    to[4] = g[2];
  }
  template <class V>
  static OSPREY_INLINE void results(const V* m, V* to) {
    const V even_p = m[0] + m[1], even_q = m[2] + m[3];
    to[0] = even_p + even_q;
    to[1] = kP * (m[0] - m[1]) + kQ * (m[2] - m[3]);
    to[2] = kP2 * even_p + kQ2 * even_q + m[4];
  }
  template <class V>
  static OSPREY_INLINE void wanted(const V* e, V* to) {
    const V even_p = e[0] + kP2 * e[2], odd_p = kP * e[1], even_q = e[0] + kQ2 * e[2], odd_q = kQ * e[1];
    to[0] = even_p + odd_p;
    to[1] = even_p - odd_p;
    to[2] = even_q + odd_q;
    to[3] = even_q - odd_q;
    to[4] = e[2];
  }
  template <class V>
  static OSPREY_INLINE void sums(const V* u, V* to) {
    const V even_p = kOfP * (u[0] + u[1]), even_q = kOfQ * (u[2] + u[3]);
    to[0] = even_p + even_q;
    to[1] = kOfP * kP * (u[0] - u[1]) + kOfQ * kQ * (u[2] - u[3]);
    to[2] = kP2 * even_p + kQ2 * even_q + u[4];
  }
};

/// F(4, 3) with the points 0, p, -p, q, -q. These two make results nearly as exact as those of a plain convolution,
/// with 1 and 2 their errors would be twice as large; and all factors but those of the taps are numbers that a float
/// has.
struct FourResults {
  static constexpr int kResults = 4, kSides = 6;
  static constexpr float kP = 0.75f, kQ = 1.5f, kP2 = kP * kP, kQ2 = kQ * kQ, kBoth = kP2 * kQ2, kSum = kP2 + kQ2;
  /// 1 / the product of the distances of a point from the others: G has 1, a, a^2 times that of point a.
  static constexpr float kOfZero = 1 / kBoth, kOfP = 1 / (2 * kP2 * (kP2 - kQ2)), kOfQ = 1 / (2 * kQ2 * (kQ2 - kP2));

  template <class V>
  static OSPREY_INLINE void seen(const V* d, V* to) {
    const V even_p = d[4] - kQ2 * d[2], odd_p = kP * (d[3] - kQ2 * d[1]), even_q = d[4] - kP2 * d[2],
            odd_q = kQ * (d[3] - kP2 * d[1]);
    to[0] = kBoth * d[0] - kSum * d[2] + d[4];
    to[1] = even_p + odd_p;
    to[2] = even_p - odd_p;
    to[3] = even_q + odd_q;
    to[4] = even_q - odd_q;
    to[5] = kBoth * d[1] - kSum * d[3] + d[5];
  }
  template <class V>
  static OSPREY_INLINE void taps(const V* g, V* to) {
    const V even_p = kOfP * g[0] + kOfP * kP2 * g[2], odd_p = kOfP * kP * g[1],
            even_q = kOfQ * g[0] + kOfQ * kQ2 * g[2], odd_q = kOfQ * kQ * g[1];
    to[0] = kOfZero * g[0];
    to[1] = even_p + odd_p;
    to[2] = even_p - odd_p;
    to[3] = even_q + odd_q;
    to[4] = even_q - odd_q;
    to[5] = g[2];
  }
  template <class V>
  static OSPREY_INLINE void results(const V* m, V* to) {
    const V even_p = m[1] + m[2], odd_p = kP * (m[1] - m[2]), even_q = m[3] + m[4], odd_q = kQ * (m[3] - m[4]);
    to[0] = m[0] + even_p + even_q;
    to[1] = odd_p + odd_q;
    to[2] = kP2 * even_p + kQ2 * even_q;
    to[3] = kP2 * odd_p + kQ2 * odd_q + m[5];
  }
  template <class V>
  static OSPREY_INLINE void wanted(const V* e, V* to) {
    const V even_p = e[0] + kP2 * e[2], odd_p = kP * (e[1] + kP2 * e[3]), even_q = e[0] + kQ2 * e[2],
            odd_q = kQ * (e[1] + kQ2 * e[3]);
    to[0] = e[0];
    to[1] = even_p + odd_p;
    to[2] = even_p - odd_p;
    to[3] = even_q + odd_q;
    to[4] = even_q - odd_q;
    to[5] = e[3];
  }
  template <class V>
  static OSPREY_INLINE void sums(const V* u, V* to) {
    const V even_p = kOfP * (u[1] + u[2]), odd_p = kOfP * kP * (u[1] - u[2]), even_q = kOfQ * (u[3] + u[4]),
            odd_q = kOfQ * kQ * (u[3] - u[4]);
    to[0] = kOfZero * u[0] + even_p + even_q;
    to[1] = odd_p + odd_q;
    to[2] = kP2 * even_p + kQ2 * even_q + u[5];
  }
};

}  // namespace osprey::kernels::cpu
