//! `pow` of libm, for its one caller in the program: the library of progress bars computes powers of 0.1, with
//! exponents that are not negative, to estimate how fast something goes. Without this, every
//! command loads libm, which is 6 % of the time of a short one. It is wrong for bases near 0, of
//! which it subtracts 1, and for 0 to the power of 0: nothing else may call `f64::powf`.

const math = @import("std").math;

export fn pow(base: f64, exponent: f64) f64 {
    // `exp` and `log` themselves are functions of libm.
    const logarithm = exponent * math.log1p(base - 1);
    const growth = math.expm1(@abs(logarithm)) + 1;
    return if (logarithm < 0) 1 / growth else growth;
}
