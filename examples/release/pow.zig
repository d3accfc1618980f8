//! The power function of C, for bases that are not negative. Only progress bars call it, to estimate how fast
//! something goes. Without it, every command loads the library of mathematical functions, which
//! takes a sixteenth of the time of a short one.

const math = @import("std").math;

export fn pow(base: f64, exponent: f64) f64 {
    // `exp` and `log` themselves are functions of the library that is not to be loaded.
    const logarithm = exponent * math.log1p(base - 1);
    const growth = math.expm1(@abs(logarithm)) + 1;
    return if (logarithm < 0) 1 / growth else growth;
}
