//! How floats and strings are spelled in JSON. Knows no values.

use std::fmt::{LowerExp, Write};
use std::str::FromStr;

use super::plain_length;

/// Appends a float in shortest form: `1.0`, `0.00001`, `1e-6`, `1e+16`. Not finite: `null`.
pub fn write_float(out: &mut String, value: f64) {
    write_float_with(out, &shortest_digits(value), -5, 1);
}

/// Appends a float of 32 bits in shortest form. Not finite: `null`.
pub fn write_float32(out: &mut String, value: f32) {
    write_float_with(out, &shortest_digits(value), -5, 1);
}

/// Appends a float as Python's `repr` does: `1.0`, `0.0001`, `1e-05`, `1e+16`. Not finite: `null`.
pub fn write_float_repr(out: &mut String, value: f64) {
    write_float_with(out, &shortest_digits(value), -4, 2);
}

/// Decimal notation from `10^lowest` up to `10^15`, else scientific with this many exponent digits or more.
fn write_float_with(out: &mut String, shortest: &str, lowest: i32, exponent_digits: usize) {
    // Infinities and NaN have no exponent.
    let Some((mantissa, exponent)) = shortest.split_once('e') else {
        out.push_str("null");
        return;
    };
    let exponent: i32 = exponent.parse().expect("an exponent is a small integer");
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    out.push_str(sign);
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    if !(lowest..=15).contains(&exponent) {
        out.push_str(mantissa);
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "e{sign}{:0exponent_digits$}", exponent.abs()).expect("writing to a string cannot fail");
    } else if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
        out.push_str(&digits);
    } else {
        let whole = exponent as usize + 1;
        if digits.len() <= whole {
            out.push_str(&digits);
            out.extend(std::iter::repeat_n('0', whole - digits.len()));
            out.push_str(".0");
        } else {
            out.push_str(&digits[..whole]);
            out.push('.');
            out.push_str(&digits[whole..]);
        }
    }
}

/// The fewest digits that read back as the same float, and of those the closest, even on a tie: `-1.25e-7`.
fn shortest_digits<F: LowerExp + FromStr + PartialEq>(value: F) -> String {
    // `{:e}` gives the fewest digits, but rounds a tie up (655462686014074.25 ends in 3).
    let shortest = format!("{value:e}");
    let mantissa = shortest.split('e').next().unwrap_or_default();
    let decimals = mantissa.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    // Precision rounds ties to even. Next to a power of two the closest may read back as a neighbour.
    let closest = format!("{value:.decimals$e}");
    match closest.parse().is_ok_and(|read: F| read == value) {
        true => closest,
        false => shortest,
    }
}

/// Appends `text` as a JSON string, quotes included.
pub fn write_string(out: &mut String, text: &str) {
    out.reserve(text.len() + 2);
    out.push('"');
    write_escaped(out, text);
    out.push('"');
}

/// Appends `text` as the inside of a JSON string: `\"`, `\\`, the short escapes and `\u00xx` for controls.
pub fn write_escaped(out: &mut String, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut rest = text;
    loop {
        let (plain, found) = rest.split_at(plain_length(rest.as_bytes()));
        out.push_str(plain);
        let Some(&byte) = found.as_bytes().first() else {
            return;
        };
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            _ => {
                out.push_str("\\u00");
                out.push(HEX[usize::from(byte >> 4)].into());
                out.push(HEX[usize::from(byte & 15)].into());
            }
        }
        rest = &found[1..];
    }
}
