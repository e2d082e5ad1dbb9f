//! Numbers in files of /proc.

use std::io::Result;

use crate::kept::ended;

/// Return the next number. A line that is cut is one of a process that has ended.
pub fn next(numbers: &mut impl Iterator<Item = u64>) -> Result<u64> {
    numbers.next().ok_or_else(ended)
}

/// Words as numbers; of negative ones, which no field that is used has, nothing.
pub fn numbers(text: &[u8]) -> impl Iterator<Item = u64> + '_ {
    text.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .map(|word| number(word).unwrap_or(0))
}

pub fn number(word: &[u8]) -> Option<u64> {
    let mut found = 0_u64;
    for byte in word {
        let digit = byte.checked_sub(b'0').filter(|&digit| digit < 10)?;
        found = found.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    (!word.is_empty()).then_some(found)
}

/// Return the letter of the state in a line of `stat`, and what follows it: field 4 and the next of
/// proc(5). The name in brackets before it may hold anything.
pub fn after_name(line: &[u8]) -> Option<(u8, &[u8])> {
    let end = line.iter().rposition(|&byte| byte == b')')?;
    Some((*line.get(end + 2)?, line.get(end + 4..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_follow_a_name_with_brackets() {
        let (letter, rest) = after_name(b"12 (a) S) (b) D 1 -12 7\n").expect("it is whole");
        assert_eq!(letter, b'D');
        assert_eq!(numbers(rest).collect::<Vec<_>>(), [1, 0, 7]);
        assert!(after_name(b"12 (cut").is_none());
        assert!(next(&mut numbers(b"")).is_err());
    }
}
